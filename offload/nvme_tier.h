// The disk as a tier: unnamed files reserved whole at the start, behind one I/O thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <strata/options.h>
#include <strata/tier.h>
#include "offload/block_io.h"
#include "offload/extent_allotment.h"
#include "offload/io_queue.h"
#include "offload/nvme_files.h"

namespace strata::offload {

struct DiskOptions {
  std::vector<std::string> dirs;     // several are striped, block by block
  std::uint64_t capacity_bytes = 0;  // in all of them; rounded up to the alignment and to whole stripes
  IoBackend backend = IoBackend::automatic;
  std::uint64_t inflight_bytes = std::uint64_t{8} << 20;
  std::uint64_t block_bytes = std::uint64_t{2} << 20;
  std::size_t request_count = 256;            // loads and stores under way or queued; more wait in load and store
  double stall_s = 60;                        // without a byte that moves, while some should
  std::vector<std::span<std::byte>> buffers;  // most used ones: registered with the kernel where it allows
};

// Loads and stores return at once and may be called from any thread. REQUIRES of the destructor: no other call.
class NvmeTier final : public Tier {
 public:
  // Reserves the whole capacity on the disk. `wrap`, for tests, stands between the queue and the backend.
  using BlockIoWrap = std::function<std::unique_ptr<BlockIo>(std::unique_ptr<BlockIo>)>;
  explicit NvmeTier(const DiskOptions& options, const BlockIoWrap& wrap = {});

  TierKind kind() const override { return TierKind::nvme; }
  std::string name() const override;
  std::uint64_t capacity_bytes() const override { return allotment_.capacity_bytes(); }
  std::uint64_t reserved_bytes() const override { return allotment_.reserved_bytes(); }
  std::size_t alignment_bytes() const override { return allotment_.alignment_bytes(); }
  Extent reserve(std::uint64_t size_bytes) override { return allotment_.reserve(size_bytes); }
  Event load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) override;
  Event store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) override;
  std::span<std::byte> memory(const Extent&) const override { return {}; }
  TierCounters counters() const override { return queue_->counters(); }

  const std::string& backend_name() const { return queue_->backend_name(); }  // "io_uring", "threads"
  bool is_direct() const { return files_.is_direct(); }

  // What had to be done without, a sentence each. Constant after the constructor.
  const std::vector<std::string>& warnings() const { return warnings_; }

  const NvmeFiles& files() const { return files_; }

 private:
  NvmeFiles files_;
  ExtentAllotment allotment_;
  std::vector<std::string> warnings_;
  std::unique_ptr<IoQueue> queue_;  // ends before the files
};

}  // namespace strata::offload
