// The log of a run: JSON Lines, one object a step, one an evaluation.
#pragma once

#include <strata/engine.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace llm {

struct StepRecord {
  double lr = 0;
  double seconds = 0;            // of this step
  double predicted_seconds = 0;  // as said before step 1
};

class TrainLog {
 public:
  TrainLog() = default;                                  // writes nothing
  explicit TrainLog(const std::filesystem::path& file);  // throws std::invalid_argument when it cannot be made

  void write_step(const strata::StepReport& report, const StepRecord& record);
  void write_evaluation(std::uint64_t step, double eval_loss, std::uint64_t tokens);

 private:
  std::ofstream stream_;
};

}  // namespace llm
