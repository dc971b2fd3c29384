// A thread that does acts in the order in which they were enqueued.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <strata/detail/event_state.h>
#include <strata/event.h>

namespace strata::engine {

// A closure over plain values, kept in place: enqueuing allocates nothing.
class Act {
 public:
  Act() = default;

  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Act>)
      Act(F function) {  // NOLINT: implicit, so that a lambda is an act
    static_assert(std::is_trivially_copyable_v<F> && sizeof(F) <= sizeof(storage_), "acts hold a few plain values");
    std::memcpy(storage_, &function, sizeof(F));
    run_ = [](void* storage) { (*static_cast<F*>(storage))(); };
  }

  void operator()() { run_(storage_); }

 private:
  alignas(16) std::byte storage_[112] = {};
  void (*run_)(void*) = nullptr;
};

// The first act that throws ends the lane: the acts behind it are dropped, and their events fail with the same cause.
// Threading: enqueue from one thread; acts run on the lane's.
class Lane {
 public:
  // `idle` is called at least every `idle_every` while nothing is to be done, and by wait_with_idle.
  Lane(std::string name, std::size_t capacity, std::function<void()> idle, std::chrono::milliseconds idle_every);
  ~Lane() { finish(); }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Event enqueue(Act act);  // waits only when `capacity` acts are queued already

  // For an act that depends on another lane: waits for the event, staying alive to peers.
  void wait_with_idle(const Event& event) const;

  void finish();  // does what was enqueued, then ends the thread; nothing may be enqueued later

  void drain() const { Event(state_, enqueued_count_).wait(); }
  void check() const { state_->check(); }  // throws what ended the lane
  bool failed() const { return state_->failed(); }

 private:
  void run();

  const std::function<void()> idle_;
  const std::chrono::milliseconds idle_every_;
  std::shared_ptr<detail::EventState> state_ = std::make_shared<detail::EventState>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Act> ring_ STRATA_GUARDED_BY(mutex_);
  std::uint64_t enqueued_count_ = 0;  // written by the enqueuing thread, under mutex_
  std::uint64_t taken_count_ STRATA_GUARDED_BY(mutex_) = 0;
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::engine
