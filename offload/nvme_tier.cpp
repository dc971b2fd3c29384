#include "offload/nvme_tier.h"

#include <fmt/format.h>

#include <algorithm>

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata::offload {
namespace {

constexpr std::uint64_t block_bytes_min = 4096;
constexpr std::uint64_t block_bytes_max = std::uint64_t{1} << 30;

const DiskOptions& checked(const DiskOptions& options) {
  if (options.block_bytes < block_bytes_min || options.block_bytes > block_bytes_max ||
      options.block_bytes % block_bytes_min != 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("I/O blocks of {}: they are multiples of 4 KiB, at most 1 GiB",
                                                         format_bytes(options.block_bytes)));
  if (options.request_count == 0 || options.stall_s <= 0)
    throw Error(ErrorCode::invalid_argument, "a disk tier without requests, or without time for them");
  return options;
}

std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

NvmeTier::NvmeTier(const DiskOptions& options, const BlockIoWrap& wrap)
    : files_(checked(options).dirs, rounded_up(options.capacity_bytes, block_bytes_min), options.block_bytes),
      allotment_("nvme", rounded_up(options.capacity_bytes, block_bytes_min), files_.alignment_bytes()),
      warnings_(files_.warnings()) {
  IoQueueSetup setup;
  setup.limits = {files_.layout(), files_.names(), options.block_bytes, options.inflight_bytes,
                  files_.alignment_bytes()};
  setup.fds = files_.fds();
  setup.buffers = options.buffers;
  setup.request_count = options.request_count;
  setup.stall_s = options.stall_s;

  const auto queue_over = [&](const BlockIoFactory& make) {
    const BlockIoFactory wrapped = [&](const BlockIoSetup& io_setup) { return wrap(make(io_setup)); };
    queue_ = std::make_unique<IoQueue>(setup, wrap ? wrapped : make);
  };
  if (options.backend == IoBackend::threads) {
    queue_over(make_threads_io);
  } else {
    try {
      queue_over(make_uring_io);
    } catch (const Error& error) {
      if (options.backend == IoBackend::uring || error.code() != ErrorCode::unsupported) throw;
      warnings_.push_back(fmt::format("{}; reading and writing with threads instead", error.text()));
      queue_over(make_threads_io);
    }
  }
  const auto& more = queue_->backend_warnings();
  warnings_.insert(warnings_.end(), more.begin(), more.end());
}

std::string NvmeTier::name() const {
  return fmt::format("nvme ({}, {})", backend_name(), is_direct() ? "direct" : "buffered");
}

Event NvmeTier::load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) {
  const std::uint64_t offset = allotment_.offset_of(extent, first_byte, target.data(), target.size());
  return queue_->enqueue(IoAct::read, offset, target.data(), target.size());
}

Event NvmeTier::store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) {
  const std::uint64_t offset = allotment_.offset_of(extent, first_byte, source.data(), source.size());
  // One request type for both: a write only reads it.
  return queue_->enqueue(IoAct::write, offset, const_cast<std::byte*>(source.data()), source.size());
}

}  // namespace strata::offload
