#include "engine/activation_needs.h"

#include <algorithm>

#include <strata/engine.h>
#include "engine/activation_store.h"

namespace strata::engine {
namespace {

// Reads ahead and writes behind last while a layer computes, so staging holds about a layer's stash: an eighth of the
// room, two layers of sixteen. At least what keeps a disk busy in both directions.
constexpr std::uint64_t staging_share = 8;
constexpr std::uint64_t staging_most_bytes = std::uint64_t{256} << 20;

}  // namespace

ActivationNeeds activation_needs(const Options& options, TierKind home) {
  ActivationNeeds needs;
  if (options.activation_memory_bytes == 0) return needs;
  needs.room_bytes = stashed_bytes(options.activation_memory_bytes);
  needs.table_bytes = needs.room_bytes / stash_piece_bytes * ActivationStore::table_bytes_per_piece;
  if (home != TierKind::nvme) return needs;
  needs.table_bytes += needs.room_bytes / stash_piece_bytes * ActivationStaging::table_bytes_per_piece;
  const std::uint64_t busy_bytes = 2 * options.io_inflight_bytes;
  const std::uint64_t wish_bytes =
      std::clamp(needs.room_bytes / staging_share, busy_bytes, std::max(busy_bytes, staging_most_bytes));
  needs.staging_bytes = std::min(needs.room_bytes, stashed_bytes(wish_bytes));
  return needs;
}

}  // namespace strata::engine
