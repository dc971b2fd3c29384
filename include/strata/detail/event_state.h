// Progress of one lane, which its events look at: how many of its acts are done, and what ended it, if anything did.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include <strata/detail/thread_annotations.h>
#include <strata/error.h>

namespace strata::detail {

// Threading: complete and fail by the lane's thread, the rest by any.
class EventState {
 public:
  bool ready(std::uint64_t ticket) const {
    return done_count_.load(std::memory_order_acquire) >= ticket || failed_.load(std::memory_order_acquire);
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  void wait(std::uint64_t ticket) const;  // throws what ended the lane before the act was done

  // False when the time ran out.
  bool wait_for(std::uint64_t ticket, std::chrono::nanoseconds time) const;

  // Throws what ended the lane, if anything has.
  void check() const;

  void complete(std::uint64_t ticket);  // this act and all before it
  void fail(const Error& cause);        // the first cause stays

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<std::uint64_t> done_count_{0};
  std::atomic<bool> failed_{false};
  std::optional<Error> cause_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata::detail
