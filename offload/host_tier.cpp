#include "offload/host_tier.h"

#include <cstring>

#include <strata/detail/assert.h>

namespace strata::offload {
namespace {

constexpr std::size_t host_alignment_bytes = 64;  // a cache line, and the widest vector

}  // namespace

HostTier::HostTier(std::uint64_t capacity_bytes, TierKind kind)
    : kind_(kind),
      allotment_(kind == TierKind::host ? "host" : "device", capacity_bytes, host_alignment_bytes),
      memory_(capacity_bytes) {
  STRATA_ASSERT(kind != TierKind::nvme);
}

Event HostTier::load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) {
  const std::uint64_t offset = allotment_.offset_of(extent, first_byte, target.data(), target.size());
  if (target.empty()) return {};
  clock_.begin();
  std::memcpy(target.data(), memory_.bytes().data() + offset, target.size());
  clock_.end(target.size(), 0);
  return {};
}

Event HostTier::store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) {
  const std::uint64_t offset = allotment_.offset_of(extent, first_byte, source.data(), source.size());
  if (source.empty()) return {};
  clock_.begin();
  std::memcpy(memory_.bytes().data() + offset, source.data(), source.size());
  clock_.end(0, source.size());
  return {};
}

std::span<std::byte> HostTier::memory(const Extent& extent) const {
  allotment_.offset_of(extent, 0, nullptr, extent.size_bytes);
  return memory_.bytes().subspan(extent.offset_bytes, extent.size_bytes);
}

}  // namespace strata::offload
