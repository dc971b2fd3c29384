#include <strata/event.h>

#include <strata/detail/event_state.h>

namespace strata {

bool Event::ready() const { return !state_ || state_->ready(ticket_); }

void Event::wait() const {
  if (state_) state_->wait(ticket_);
}

bool Event::wait_for(std::chrono::nanoseconds time) const { return !state_ || state_->wait_for(ticket_, time); }

namespace detail {

void EventState::wait(std::uint64_t ticket) const {
  if (done_count_.load(std::memory_order_acquire) >= ticket) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ready(ticket); });
  if (done_count_.load(std::memory_order_acquire) < ticket) throw Error(cause_->code(), cause_->text());
}

bool EventState::wait_for(std::uint64_t ticket, std::chrono::nanoseconds time) const {
  if (done_count_.load(std::memory_order_acquire) >= ticket) return true;
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, time, [&] { return ready(ticket); })) return false;
  if (done_count_.load(std::memory_order_acquire) < ticket) throw Error(cause_->code(), cause_->text());
  return true;
}

void EventState::check() const {
  if (!failed()) return;
  std::lock_guard lock(mutex_);
  throw Error(cause_->code(), cause_->text());
}

void EventState::complete(std::uint64_t ticket) {
  {
    std::lock_guard lock(mutex_);  // a waiter that has just found its act undone must not miss the call
    done_count_.store(ticket, std::memory_order_release);
  }
  changed_.notify_all();
}

void EventState::fail(const Error& cause) {
  {
    std::lock_guard lock(mutex_);
    if (cause_) return;
    cause_.emplace(cause.code(), cause.text());
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

}  // namespace detail
}  // namespace strata
