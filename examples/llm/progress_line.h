// One line that says how far the training is: renewed in place on a terminal, else at most once a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace llm {

struct ProgressState {
  std::uint64_t step = 0, steps = 0;
  double loss = 0, tokens_per_s = 0, left_s = 0;
  std::uint64_t device_bytes = 0, device_budget_bytes = 0;
  std::uint64_t host_bytes = 0, nvme_bytes = 0;
};

class ProgressLine {
 public:
  enum class Mode : std::uint8_t { off, lines, renewed };
  explicit ProgressLine(Mode mode) : mode_(mode) {}
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const ProgressState& state);
  void clear();  // before other output

 private:
  Mode mode_;
  std::chrono::steady_clock::time_point last_{};
  std::size_t shown_length_ = 0;
};

std::string to_string(const ProgressState& state);

}  // namespace llm
