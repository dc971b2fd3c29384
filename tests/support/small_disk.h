// Disk tiers as tests want them, and the one round trip that shows that one works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "offload/nvme_tier.h"
#include "offload/private_memory.h"
#include "support/same_bytes.h"

namespace strata::test {

inline offload::DiskOptions small_disk(const std::vector<std::string>& dirs, IoBackend backend = IoBackend::automatic) {
  offload::DiskOptions options;
  options.dirs = dirs;
  options.capacity_bytes = 1 << 20;
  options.backend = backend;
  options.block_bytes = 32 << 10;
  options.inflight_bytes = 128 << 10;
  options.stall_s = 20;
  return options;
}

// Stores and loads 256 KiB: empty when the same came back, else what went wrong.
inline std::string round_trip(Tier& tier, std::uint64_t seed = 1) {
  constexpr std::size_t size = 256 << 10;
  try {
    const Extent extent = tier.reserve(size);
    const offload::PrivateMemory source(size), target(size);
    fill_random(source.bytes(), seed);
    tier.store(extent, 0, source.bytes()).wait();
    tier.load(extent, 0, target.bytes()).wait();
    return same_bytes(source.bytes(), target.bytes()) ? "" : "other bytes came back";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace strata::test
