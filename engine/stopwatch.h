// How long something took, by the monotonic clock.
#pragma once

#include <chrono>

#include <strata/event.h>

namespace strata::engine {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Waits for the event; seconds, 0 when it was ready.
inline double timed_wait(const Event& event) {
  if (event.ready()) {
    event.wait();  // throws if it has failed
    return 0;
  }
  const Stopwatch watch;
  event.wait();
  return watch.seconds();
}

}  // namespace strata::engine
