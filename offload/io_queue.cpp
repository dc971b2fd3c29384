#include "offload/io_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

namespace strata::offload {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds tick_max{1000};  // between looks at a disk that stands still
constexpr milliseconds idle_time{60'000};

}  // namespace

IoQueue::IoQueue(const IoQueueSetup& setup, const BlockIoFactory& factory)
    : stall_time_(std::chrono::ceil<std::chrono::nanoseconds>(std::chrono::duration<double>(setup.stall_s))),
      lane_(setup.limits, setup.request_count),
      slots_(setup.request_count) {
  for (auto i = static_cast<std::uint32_t>(slots_.size()); i-- > 0;) {
    slots_[i].request.slot = i;
    free_slots_.push_back(i);
  }
  queued_.reserve(slots_.size());
  const BlockIoSetup block_setup = {setup.fds, lane_.depth(), setup.buffers};
  std::unique_lock lock(mutex_);
  thread_ = std::thread([&, block_setup] { run(block_setup, factory); });
  started_.wait(lock, [&] { return running_ || cause_; });
  if (running_) return;
  lock.unlock();
  thread_.join();
  throw Error(cause_->code(), cause_->text());
}

IoQueue::~IoQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    if (io_) io_->wake();
  }
  thread_.join();
}

Event IoQueue::enqueue(IoAct act, std::uint64_t offset, std::byte* address, std::uint64_t size_bytes) {
  if (size_bytes == 0) return {};
  std::unique_lock lock(mutex_);
  room_.wait(lock, [&] { return !free_slots_.empty() || cause_; });
  if (cause_) {
    const auto failed = std::make_shared<detail::EventState>();
    failed->fail(*cause_);
    return {failed, 1};
  }
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  Slot& slot = slots_[index];
  slot.request.act = act;
  slot.request.offset = offset;
  slot.request.address = address;
  slot.request.size_bytes = size_bytes;
  slot.taken = true;
  queued_.push_back(index);
  Event event(slot.state, ++slot.ticket);
  if (asleep_) {
    asleep_ = false;
    io_->wake();
  }
  return event;
}

void IoQueue::run(const BlockIoSetup& setup, const BlockIoFactory& factory) {
  try {
    std::unique_ptr<BlockIo> io = factory(setup);
    const std::lock_guard lock(mutex_);
    io_ = std::move(io);
    backend_name_ = io_->name();
    backend_warnings_ = io_->warnings();
    running_ = true;
    started_.notify_one();
  } catch (const Error& error) {
    const std::lock_guard lock(mutex_);
    cause_ = error;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    cause_ = Error(ErrorCode::io, fmt::format("the thread of the disk cannot start: {}", error.what()));
  }
  if (!running_) return started_.notify_one();

  std::optional<Error> end;
  try {
    drive();
  } catch (const Error& error) {
    end = error;
  } catch (const std::exception& error) {
    end = Error(ErrorCode::io, fmt::format("the thread of the disk ended: {}", error.what()));
  }
  if (end) fail_all(*end);
  std::unique_ptr<BlockIo> io;
  {
    const std::lock_guard lock(mutex_);
    io = std::move(io_);  // nobody wakes it now
  }
}

void IoQueue::drive() {
  const auto tick = std::clamp(std::chrono::ceil<milliseconds>(stall_time_ / 4), milliseconds{1}, tick_max);
  while (take_queued()) {
    lane_.issue(*io_);
    settle_finished();
    if (!lane_.has_under_way() && is_ending()) continue;
    lane_.reap(*io_, lane_.has_under_way() ? tick : idle_time);
    settle_finished();
    check_stall();
  }
}

bool IoQueue::take_queued() {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t index : queued_) {
    clock_.begin();
    lane_.add(slots_[index].request);
  }
  queued_.clear();
  if (ending_) {
    const Error cause(ErrorCode::io, "the tier ends before this request has begun");
    for (Slot& slot : slots_) {
      // What is wholly under way may still end well; of the rest no more begins.
      IoRequest& request = slot.request;
      if (slot.taken && !request.cause && request.issued_bytes < request.size_bytes) request.cause = cause;
    }
  }
  asleep_ = true;
  const bool is_empty = free_slots_.size() == slots_.size();
  return !ending_ || !is_empty;
}

bool IoQueue::is_ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

void IoQueue::settle_finished() {
  lane_.take_finished([&](IoRequest& request) {
    const std::uint64_t moved_bytes = request.cause ? 0 : request.size_bytes;
    const bool is_read = request.act == IoAct::read;
    clock_.end(is_read ? moved_bytes : 0, is_read ? 0 : moved_bytes);
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[request.slot];
    if (request.cause) {
      tell(slot, *request.cause);
    } else {
      slot.state->complete(slot.ticket);
    }
    free_slot(slot);
  });
}

void IoQueue::check_stall() {
  const bool stands_still = lane_.has_under_way() && lane_.still_for() >= stall_time_;
  if (stands_still) {
    fail_all(Error(ErrorCode::io, fmt::format("the disk stands still: no byte has moved for {} s",
                                              std::chrono::duration<double>(lane_.still_for()).count())));
    return;
  }
  const std::lock_guard lock(mutex_);
  cause_.reset();
}

void IoQueue::fail_all(const Error& cause) {
  {
    const std::lock_guard lock(mutex_);
    cause_ = cause;
    for (Slot& slot : slots_) {
      if (slot.taken) tell(slot, cause);
    }
  }
  room_.notify_all();
}

void IoQueue::tell(Slot& slot, const Error& cause) {
  if (slot.told) return;
  slot.told = true;
  slot.request.cause = cause;
  slot.state->fail(cause);
  slot.state = std::make_shared<detail::EventState>();  // later users of the slot fare better
  slot.state->complete(slot.ticket);
}

void IoQueue::free_slot(Slot& slot) {
  slot.request.cause.reset();
  slot.taken = false;
  slot.told = false;
  free_slots_.push_back(slot.request.slot);
  room_.notify_one();
}

}  // namespace strata::offload
