// Ends a job whose launcher was killed without a chance to do it.
#pragma once

#include <sys/types.h>

#include <string>

#include <strata/detail/unique_fd.h>

namespace strata::cli {

// A process beside the launcher, in a session of its own, not among its children. It holds the other end of a pipe, the
// lifeline, which closes when the launcher ends, however it does. Ranks die with the launcher by themselves
// (RankProcess); the guardian is for what ranks have started. It never outlives the job.
class Guardian {
 public:
  // REQUIRES: this process has one thread. Throws Error{io}.
  explicit Guardian(const std::string& job);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  ~Guardian();  // dismisses it: all has been ended; waits until it has gone, at most a second

 private:
  detail::UniqueFd lifeline_;
  detail::UniqueFd process_;
};

}  // namespace strata::cli
