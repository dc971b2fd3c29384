// What a run's steps took, moved and waited for, summed up for the table at its end.
#pragma once

#include <strata/engine.h>

#include <cstdint>
#include <string>

namespace llm {

class RunTotals {
 public:
  void add(const strata::StepReport& report, double seconds);

  // For people, of this rank: how long compute waited for what, and traffic, rate and waits of each tier that bytes
  // moved to or from.
  std::string table() const;

 private:
  std::uint64_t step_count_ = 0;
  double seconds_ = 0;
  strata::Waits waits_;
  strata::TierTraffic host_, nvme_;
};

}  // namespace llm
