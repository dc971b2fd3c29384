// Memory as a tier: of the host, and of the device where that is a CPU.
#pragma once

#include <strata/tier.h>
#include "offload/busy_clock.h"
#include "offload/extent_allotment.h"
#include "offload/private_memory.h"

namespace strata::offload {

// Loads and stores copy on the calling thread; their events are complete. Extents of different threads do not overlap
// while they copy.
class HostTier final : public Tier {
 public:
  // Takes and touches the memory. `kind` is host or device.
  explicit HostTier(std::uint64_t capacity_bytes, TierKind kind = TierKind::host);

  TierKind kind() const override { return kind_; }
  std::string name() const override { return kind_ == TierKind::host ? "host" : "device"; }
  std::uint64_t capacity_bytes() const override { return allotment_.capacity_bytes(); }
  std::uint64_t reserved_bytes() const override { return allotment_.reserved_bytes(); }
  std::size_t alignment_bytes() const override { return allotment_.alignment_bytes(); }
  Extent reserve(std::uint64_t size_bytes) override { return allotment_.reserve(size_bytes); }
  Event load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) override;
  Event store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) override;
  std::span<std::byte> memory(const Extent& extent) const override;
  TierCounters counters() const override { return clock_.counters(); }

 private:
  const TierKind kind_;
  ExtentAllotment allotment_;
  const PrivateMemory memory_;
  BusyClock clock_;
};

}  // namespace strata::offload
