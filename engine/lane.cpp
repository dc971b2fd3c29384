#include "engine/lane.h"

#include <pthread.h>

#include <exception>
#include <utility>

namespace strata::engine {

Lane::Lane(std::string name, std::size_t capacity, std::function<void()> idle, std::chrono::milliseconds idle_every)
    : idle_(std::move(idle)), idle_every_(idle_every), ring_(capacity) {
  thread_ = std::thread([this] { run(); });
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

void Lane::finish() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Event Lane::enqueue(Act act) {
  std::uint64_t ticket = 0;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return enqueued_count_ - taken_count_ < ring_.size(); });
    ring_[enqueued_count_ % ring_.size()] = act;
    ticket = ++enqueued_count_;
  }
  changed_.notify_all();
  return Event(state_, ticket);
}

void Lane::wait_with_idle(const Event& event) const {
  while (!event.wait_for(idle_every_)) idle_();
}

void Lane::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!changed_.wait_for(lock, idle_every_, [&] { return taken_count_ < enqueued_count_ || ending_; })) {
      lock.unlock();
      idle_();
      lock.lock();
      continue;
    }
    if (taken_count_ == enqueued_count_) return;
    Act act = ring_[taken_count_ % ring_.size()];
    const std::uint64_t ticket = ++taken_count_;
    lock.unlock();
    changed_.notify_all();
    if (!state_->failed()) {
      try {
        act();
        state_->complete(ticket);
      } catch (const Error& error) {
        state_->fail(error);
      } catch (const std::exception& error) {
        state_->fail(Error(ErrorCode::io, error.what()));
      }
    }
    lock.lock();
  }
}

}  // namespace strata::engine
