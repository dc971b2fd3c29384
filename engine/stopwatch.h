// How long something took, by the monotonic clock, and how much of that a peer was waited for.
#pragma once

#include <algorithm>
#include <chrono>

#include <strata/communicator.h>

namespace strata::engine {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// For a wait of the caller's: of its time, what the communicator spent waiting for peers that had not come.
class WaitWatch {
 public:
  explicit WaitWatch(const Communicator& communicator)
      : communicator_(communicator), peer_wait_s_before_(communicator.counters().peer_wait_s) {}
  double seconds() const { return watch_.seconds(); }
  double peer_s() const { return std::min(seconds(), communicator_.counters().peer_wait_s - peer_wait_s_before_); }

 private:
  const Communicator& communicator_;
  const double peer_wait_s_before_;
  const Stopwatch watch_;
};

}  // namespace strata::engine
