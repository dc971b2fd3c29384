// How long a lane has waited for one thing, a wait in progress included: who waits for the lane can tell why.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <strata/event.h>

namespace strata::engine {

// Threading: wait() and the scope by one thread at a time, seconds() by any.
class WaitMeter {
 public:
  // While it lives, time counts.
  class Scope {
   public:
    explicit Scope(WaitMeter& meter) : meter_(meter), begin_ns_(now_ns()), before_ns_(meter.ns_.load()) {
      meter_.ns_.store(before_ns_ - begin_ns_, std::memory_order_relaxed);
    }
    ~Scope() { meter_.ns_.store(before_ns_ + now_ns() - begin_ns_, std::memory_order_relaxed); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WaitMeter& meter_;
    const std::int64_t begin_ns_;
    const std::int64_t before_ns_;
  };

  void wait(const Event& event) {
    if (event.ready()) return event.wait();  // throws if it has failed
    const Scope scope(*this);
    event.wait();
  }

  double seconds() const {
    const std::int64_t ns = ns_.load(std::memory_order_relaxed);
    return 1e-9 * static_cast<double>(ns < 0 ? ns + now_ns() : ns);
  }

 private:
  static std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  std::atomic<std::int64_t> ns_{0};  // the sum; during a wait the sum less the clock at its start, negative
};

}  // namespace strata::engine
