// How long at least one act was under way, and what all of them moved.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include <strata/detail/thread_annotations.h>
#include <strata/tier.h>

namespace strata::offload {

// Threading: any.
class BusyClock {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    if (under_way_count_++ == 0) since_ = Clock::now();
  }

  void end(std::uint64_t loaded_bytes, std::uint64_t stored_bytes) {
    const std::lock_guard lock(mutex_);
    counters_.loaded_bytes += loaded_bytes;
    counters_.stored_bytes += stored_bytes;
    if (--under_way_count_ == 0) counters_.busy_s += seconds_since_begin();
  }

  TierCounters counters() const {
    const std::lock_guard lock(mutex_);
    TierCounters now = counters_;
    if (under_way_count_ > 0) now.busy_s += seconds_since_begin();
    return now;
  }

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_since_begin() const { return std::chrono::duration<double>(Clock::now() - since_).count(); }

  mutable std::mutex mutex_;
  TierCounters counters_ STRATA_GUARDED_BY(mutex_);
  std::uint64_t under_way_count_ STRATA_GUARDED_BY(mutex_) = 0;
  Clock::time_point since_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::offload
