// The one thread that drives the disk: takes requests from any thread and completes each with an event of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <strata/detail/event_state.h>
#include <strata/detail/thread_annotations.h>
#include <strata/event.h>
#include "offload/block_io.h"
#include "offload/busy_clock.h"
#include "offload/io_lane.h"

namespace strata::offload {

struct IoQueueSetup {
  IoLimits limits;
  std::vector<int> fds;
  std::vector<std::span<std::byte>> buffers;  // worth registering
  std::size_t request_count = 256;            // queued or under way at once
  double stall_s = 60;                        // without a byte that moves, while some should
};

// Requests complete in any order. A failed one harms no other. After an error that says the disk stands still, the
// buffers of what was under way stay the kernel's until the queue is gone; the queue goes on when the disk does.
// Allocates nothing after the start, unless a request fails. Threading: enqueue and the getters by any.
class IoQueue {
 public:
  // The backend is made and used on the queue's thread. Throws what the factory throws.
  IoQueue(const IoQueueSetup& setup, const BlockIoFactory& factory);

  // What has not begun fails; what is under way is waited for.
  ~IoQueue();
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  // Waits only while `request_count` requests are queued or under way.
  Event enqueue(IoAct act, std::uint64_t offset, std::byte* address, std::uint64_t size_bytes);

  const std::string& backend_name() const { return backend_name_; }
  const std::vector<std::string>& backend_warnings() const { return backend_warnings_; }
  TierCounters counters() const { return clock_.counters(); }

 private:
  struct Slot {
    IoRequest request;
    std::shared_ptr<detail::EventState> state = std::make_shared<detail::EventState>();
    std::uint64_t ticket = 0;
    bool taken = false;
    bool told = false;  // its event has failed already
  };

  void run(const BlockIoSetup& setup, const BlockIoFactory& factory);
  void drive();
  bool take_queued();  // false: nothing will come any more, and nothing is under way
  bool is_ending() const;
  void settle_finished();
  void check_stall();
  void fail_all(const Error& cause);
  void tell(Slot& slot, const Error& cause);
  void free_slot(Slot& slot);

  const std::chrono::nanoseconds stall_time_;
  IoLane lane_;                  // of the queue's thread
  std::unique_ptr<BlockIo> io_;  // the same, but for wake()
  BusyClock clock_;
  std::string backend_name_;
  std::vector<std::string> backend_warnings_;

  mutable std::mutex mutex_;
  std::condition_variable room_, started_;
  std::vector<Slot> slots_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> free_slots_ STRATA_GUARDED_BY(mutex_);
  std::vector<std::uint32_t> queued_ STRATA_GUARDED_BY(mutex_);
  std::optional<Error> cause_ STRATA_GUARDED_BY(mutex_);  // why nothing can be done now
  bool running_ STRATA_GUARDED_BY(mutex_) = false;
  bool asleep_ STRATA_GUARDED_BY(mutex_) = false;  // looks for new requests only when woken
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::offload
