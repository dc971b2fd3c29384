// Starts the ranks of a job, passes signals on, and sees to it that all end.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>

#include <chrono>
#include <optional>
#include <vector>

#include <strata/detail/unique_fd.h>

#include "engine/cli/guardian.h"
#include "engine/cli/launch_plan.h"
#include "engine/cli/rank_process.h"

namespace strata::cli {

// One loop waits for ends, signals and deadlines:
//
//   running   -- a rank fails -->           grace        survivors may say what they lost
//   grace     -- 1.5 s -->                  terminating  SIGTERM
//   terminating -- 0.5 s -->                killing      SIGKILL
//   any       -- all ranks have ended -->   done
class Launcher {
 public:
  // REQUIRES: this process has one thread, and one launcher in its life: it takes over the process's signals.
  explicit Launcher(LaunchPlan plan);

  // Returns the job's exit status when every process of it has ended.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { running, grace, terminating, killing };

  std::optional<int> start_ranks();  // a status when the program cannot be run
  void wait_for_something();
  void take_signals();
  void pass_on(const signalfd_siginfo& signal);
  void reap_ranks();
  void note_failure(std::size_t rank);
  void advance();
  void enter(Phase phase, double patience_s);
  void signal_ranks(int number) const;
  bool any_running() const;

  const LaunchPlan plan_;
  sigset_t signals_before_;
  detail::UniqueFd signals_;
  std::optional<Guardian> guardian_;
  std::vector<RankProcess> ranks_;
  Phase phase_ = Phase::running;
  std::optional<Clock::time_point> due_;  // of the phase
  std::optional<int> failure_status_;
  std::vector<std::optional<Clock::time_point>> last_passed_;  // by signal number
};

}  // namespace strata::cli
