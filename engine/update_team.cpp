#include "engine/update_team.h"

#include <pthread.h>

namespace strata::engine {

UpdateTeam::UpdateTeam(std::uint32_t threads) {
  for (std::uint32_t i = 1; i < threads; ++i) {
    others_.emplace_back([this] { member(); });
    pthread_setname_np(others_.back().native_handle(), "strata-update");
  }
}

UpdateTeam::~UpdateTeam() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void UpdateTeam::run_erased(std::size_t count, Function function, const void* context) {
  const bool alone = others_.empty() || count < 2;
  {
    std::lock_guard lock(mutex_);
    function_ = function;
    context_ = context;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    if (!alone) {
      ++round_;
      busy_count_ = others_.size();
    }
  }
  if (!alone) changed_.notify_all();
  take_indices();
  if (alone) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_count_ == 0; });
}

void UpdateTeam::take_indices() {
  for (std::size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < count_;
       i = next_.fetch_add(1, std::memory_order_relaxed)) {
    function_(context_, i);
  }
}

void UpdateTeam::member() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return round_ != seen || ending_; });
    if (ending_) return;
    seen = round_;
    lock.unlock();
    take_indices();
    lock.lock();
    if (--busy_count_ == 0) changed_.notify_all();
  }
}

}  // namespace strata::engine
