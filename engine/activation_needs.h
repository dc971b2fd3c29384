// What the activation store takes of each tier, so that the plan can list it.
#pragma once

#include <cstdint>

#include <strata/options.h>
#include <strata/tier.h>

namespace strata::engine {

struct ActivationNeeds {
  std::uint64_t room_bytes = 0;     // in the home, in whole pieces
  std::uint64_t staging_bytes = 0;  // private host memory between the caller and a disk
  std::uint64_t table_bytes = 0;    // private host memory: keys, pieces, seals

  std::uint64_t host_extra_bytes() const { return staging_bytes + table_bytes; }  // beside the room
  std::uint64_t host_bytes(TierKind home) const {
    return host_extra_bytes() + (home == TierKind::host ? room_bytes : 0);
  }
  std::uint64_t nvme_bytes(TierKind home) const { return home == TierKind::nvme ? room_bytes : 0; }
};

// All zero without --strata-activation-memory.
ActivationNeeds activation_needs(const Options& options, TierKind home);

}  // namespace strata::engine
