// Requests of any size as blocks under way: splits, resumes what came short, retries, and knows when each is done.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <strata/error.h>
#include "offload/block_io.h"
#include "offload/stripe_layout.h"

namespace strata::offload {

struct IoRequest {
  IoAct act = IoAct::read;
  std::uint64_t offset = 0;  // as if the files were one
  std::uint64_t size_bytes = 0;
  std::byte* address = nullptr;
  std::uint32_t slot = 0;  // the caller's name for it

  std::optional<Error> cause;  // what ended it; nothing of it begins after that

  // The lane's.
  std::uint64_t issued_bytes = 0;
  std::uint32_t block_count = 0;  // under way
  bool listed = false;            // not all of it has begun
};

struct IoLimits {
  StripeLayout layout;
  std::vector<std::string> file_names;  // for messages
  std::uint64_t block_bytes = 0;        // of one call to the kernel, a multiple of alignment_bytes
  std::uint64_t inflight_bytes = 0;     // under way at once; one block always may be
  std::uint64_t alignment_bytes = 1;
};

// A block that does not move on is tried again this often.
inline constexpr std::uint32_t retry_count_max = 3;

// Threading: one thread.
class IoLane {
 public:
  // `request_count` requests are in it at most: nothing is allocated later, unless one fails.
  IoLane(const IoLimits& limits, std::size_t request_count);

  std::uint32_t depth() const { return static_cast<std::uint32_t>(under_way_.size()); }

  // The request stays where it is until it is finished.
  void add(IoRequest& request);

  // Begins what the limits allow, in the order of add.
  void issue(BlockIo& io);

  // Waits for blocks that are done, or a wake-up, or the time. Throws what the backend throws.
  void reap(BlockIo& io, std::chrono::milliseconds time);

  // Those without a block under way, and all of whose bytes have moved or which have a cause. Forgets them.
  template <typename F>
  void take_finished(F&& act) {
    for (IoRequest* request : finished_) act(*request);
    finished_.clear();
  }

  bool has_under_way() const { return under_way_count_ > 0; }

  // Since a byte has moved, or since something is under way.
  std::chrono::nanoseconds still_for() const { return Clock::now() - moved_at_; }

 private:
  using Clock = std::chrono::steady_clock;

  struct UnderWay {
    IoRequest* request = nullptr;
    Block block;
    std::uint32_t failed_count = 0;  // in a row, without progress
  };

  bool issue_block_of(BlockIo& io, IoRequest& request);  // false: no room
  void handle(BlockIo& io, const BlockResult& result);
  void advance(BlockIo& io, UnderWay& slot, std::uint64_t moved_bytes);
  void try_again(BlockIo& io, UnderWay& slot, const Error& cause);
  void end_block(UnderWay& slot);
  void finish_if_done(IoRequest& request);
  Error failure(const Block& block, ErrorCode code, const std::string& what) const;

  const IoLimits limits_;
  std::vector<UnderWay> under_way_;
  std::vector<std::uint32_t> free_tokens_;
  std::vector<BlockResult> results_;
  std::vector<IoRequest*> listed_;  // a ring
  std::size_t listed_begin_ = 0, listed_end_ = 0;
  std::vector<IoRequest*> finished_;
  std::uint64_t inflight_bytes_ = 0;
  std::uint32_t under_way_count_ = 0;
  Clock::time_point moved_at_ = Clock::now();
};

}  // namespace strata::offload
