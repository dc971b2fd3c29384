#include "offload/io_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <strata/detail/assert.h>

namespace strata::offload {
namespace {

constexpr std::uint64_t small_block_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t depth_min = 4, depth_max = 128;

// Of blocks that may be small: more of them than of full ones are needed for as many bytes.
std::uint32_t depth_for(const IoLimits& limits) {
  return static_cast<std::uint32_t>(std::clamp(limits.inflight_bytes / small_block_bytes, depth_min, depth_max));
}

// EIO of a read may be the path rather than the block. That of a write is not tried again: a second attempt can succeed
// without the first one's bytes ever having reached the disk.
bool is_worth_another_try(int cause, IoAct act) {
  return cause == EINTR || cause == EAGAIN || cause == EBUSY || cause == ECANCELED ||
         (cause == EIO && act == IoAct::read);
}

}  // namespace

IoLane::IoLane(const IoLimits& limits, std::size_t request_count)
    : limits_(limits), under_way_(depth_for(limits)), results_(under_way_.size()), listed_(request_count) {
  for (std::uint32_t token = depth(); token-- > 0;) free_tokens_.push_back(token);
  finished_.reserve(request_count);
}

void IoLane::add(IoRequest& request) {
  STRATA_ASSERT(listed_end_ - listed_begin_ < listed_.size());
  request.issued_bytes = 0;
  request.block_count = 0;
  request.listed = true;
  listed_[listed_end_++ % listed_.size()] = &request;
}

void IoLane::issue(BlockIo& io) {
  while (listed_begin_ != listed_end_) {
    IoRequest& request = *listed_[listed_begin_ % listed_.size()];
    while (!request.cause && request.issued_bytes < request.size_bytes) {
      if (!issue_block_of(io, request)) return;
    }
    ++listed_begin_;
    request.listed = false;
    finish_if_done(request);
  }
}

bool IoLane::issue_block_of(BlockIo& io, IoRequest& request) {
  const StripePlace place = limits_.layout.place(request.offset + request.issued_bytes);
  const std::uint64_t size_bytes =
      std::min({limits_.block_bytes, place.contiguous_bytes, request.size_bytes - request.issued_bytes});
  const bool within_limit = inflight_bytes_ == 0 || inflight_bytes_ + size_bytes <= limits_.inflight_bytes;
  if (free_tokens_.empty() || !within_limit) return false;

  const std::uint32_t token = free_tokens_.back();
  free_tokens_.pop_back();
  under_way_[token] = {&request,
                       {request.act, place.file, place.offset, request.address + request.issued_bytes,
                        static_cast<std::uint32_t>(size_bytes), token},
                       0};
  request.issued_bytes += size_bytes;
  ++request.block_count;
  inflight_bytes_ += size_bytes;
  if (under_way_count_++ == 0) moved_at_ = Clock::now();
  io.submit(under_way_[token].block);
  return true;
}

void IoLane::reap(BlockIo& io, std::chrono::milliseconds time) {
  const std::size_t count = io.reap(results_, time);
  for (std::size_t i = 0; i < count; ++i) handle(io, results_[i]);
}

void IoLane::handle(BlockIo& io, const BlockResult& result) {
  STRATA_ASSERT(result.token < under_way_.size() && under_way_[result.token].request != nullptr);
  UnderWay& slot = under_way_[result.token];
  const Block& block = slot.block;
  if (result.result > 0) moved_at_ = Clock::now();
  if (slot.request->cause) return end_block(slot);  // what is left of it is wanted by nobody

  if (result.result > static_cast<std::int64_t>(block.size_bytes)) {
    slot.request->cause = failure(block, ErrorCode::io, fmt::format("{} bytes are said to have moved", result.result));
    end_block(slot);
  } else if (result.result > 0) {
    advance(io, slot, static_cast<std::uint64_t>(result.result));
  } else if (result.result == 0 && block.act == IoAct::read) {
    slot.request->cause = failure(block, ErrorCode::corruption, "the file ends before them");
    end_block(slot);
  } else if (result.result == 0) {
    try_again(io, slot, failure(block, ErrorCode::io, "none of them was taken"));
  } else {
    const int cause = static_cast<int>(-result.result);
    const Error error = failure(block, ErrorCode::io, fmt::format("{} (errno {})", std::strerror(cause), cause));
    if (is_worth_another_try(cause, block.act)) return try_again(io, slot, error);
    slot.request->cause = error;
    end_block(slot);
  }
}

void IoLane::advance(BlockIo& io, UnderWay& slot, std::uint64_t moved_bytes) {
  Block& block = slot.block;
  if (moved_bytes == block.size_bytes) return end_block(slot);
  // The rest must begin where the disk can: bytes beyond the last such place move again.
  const std::uint64_t kept_bytes = moved_bytes / limits_.alignment_bytes * limits_.alignment_bytes;
  if (kept_bytes == 0) {
    const ErrorCode code = block.act == IoAct::read ? ErrorCode::corruption : ErrorCode::io;
    return try_again(io, slot, failure(block, code, fmt::format("only {} of them moved", moved_bytes)));
  }
  slot.failed_count = 0;
  block.offset += kept_bytes;
  block.address += kept_bytes;
  block.size_bytes -= static_cast<std::uint32_t>(kept_bytes);
  inflight_bytes_ -= kept_bytes;
  io.submit(block);
}

void IoLane::try_again(BlockIo& io, UnderWay& slot, const Error& cause) {
  if (++slot.failed_count <= retry_count_max) return io.submit(slot.block);
  slot.request->cause = Error(cause.code(), fmt::format("{}, {} times", cause.text(), slot.failed_count));
  end_block(slot);
}

void IoLane::end_block(UnderWay& slot) {
  IoRequest& request = *slot.request;
  inflight_bytes_ -= slot.block.size_bytes;
  --under_way_count_;
  --request.block_count;
  slot.request = nullptr;
  free_tokens_.push_back(slot.block.token);
  finish_if_done(request);
}

void IoLane::finish_if_done(IoRequest& request) {
  if (!request.listed && request.block_count == 0) finished_.push_back(&request);
}

Error IoLane::failure(const Block& block, ErrorCode code, const std::string& what) const {
  return Error(code, fmt::format("{} of {} bytes at offset {} of {}: {}", block.act == IoAct::read ? "read" : "write",
                                 block.size_bytes, block.offset, limits_.file_names[block.file], what));
}

}  // namespace strata::offload
