// Which tier holds what, by one rule: the fastest tier first, whole pieces, up to its budget, in the order published
// shards, accumulators, records; the rest goes down one tier. Published shards and accumulators are placed by unit
// (they are read whole), records by chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <strata/options.h>
#include <strata/tier.h>
#include "sharding/flat_layout.h"

namespace strata::engine {

inline constexpr std::size_t page_bytes = 4096;

constexpr std::size_t round_to_page(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

// How many of a unit's chunks lie in each tier: the first ones on the device, the next in host memory, the rest on
// nvme.
struct RecordHomes {
  std::uint32_t device = 0;
  std::uint32_t host = 0;
  std::uint32_t nvme = 0;

  std::uint32_t count() const { return device + host + nvme; }
  TierKind of(std::size_t chunk) const {
    return chunk < device ? TierKind::device : chunk < device + host ? TierKind::host : TierKind::nvme;
  }
};

struct Placement {
  std::vector<TierKind> published;     // by unit
  std::vector<TierKind> accumulators;  // by unit
  std::vector<RecordHomes> records;    // by unit
  TierKind activations = TierKind::device;
};

// What the sizes of the parts follow from.
struct StateShape {
  std::span<const sharding::FlatLayout> layouts;
  std::size_t moment_count = 0;
  std::uint32_t chunk_count = 0;  // elements
};

// Sizes of one unit's parts on one rank, in any tier but for rounding.
struct PartSizes {
  PartSizes(const StateShape& shape, std::size_t unit, const Options& options);

  std::size_t chunks() const { return chunk_count == 0 ? 0 : (state_count + chunk_count - 1) / chunk_count; }
  std::size_t elements_of(std::size_t chunk) const;                             // all but the last chunk are whole
  std::size_t record_bytes(std::size_t first_chunk, std::size_t chunks) const;  // in memory: f32 master and moments

  std::size_t state_count = 0;  // elements whose master this rank holds
  std::size_t chunk_count = 0;
  std::size_t element_record_bytes = 0;
  std::size_t published_bytes = 0;
  std::size_t accumulator_bytes = 0;
};

// Bytes left for what is placed.
struct Room {
  std::uint64_t device = 0;
  std::uint64_t host = 0;
  std::uint64_t nvme = 0;
  std::uint64_t memory = 0;  // device and host together, where they are the same memory
};

// Where stashed activations may lie, the fastest first. Each of their bytes travels twice a micro-batch, more often
// than any of the state, so they come before it.
std::vector<TierKind> activation_homes(const Options& options);

// Everything in the lowest tier that it may lie in.
Placement lowest_placement(const StateShape& shape, const Options& options);

// Nothing when something has no room.
std::optional<Placement> place(const StateShape& shape, const Options& options, Room room);

// Elements of the trainable part whose state this rank holds: all (stage 0) or its shard.
sharding::FlatRange state_range(const sharding::FlatLayout& layout, int stage, int rank);

// Accumulators are the whole unit's, and peers read them.
constexpr bool accumulators_are_whole(const Options& options) {
  return options.stage == 0 || options.reduce == ReducePolicy::step;
}

// Records on nvme leave out the half of the master that the published shard holds.
constexpr bool splits_master(const Options& options, TierKind published_home) {
  return options.split_master && options.dtype == Dtype::bf16 && published_home != TierKind::nvme;
}

// Of a record on nvme, padded: remainder or master | moments.
std::size_t nvme_record_bytes(std::size_t element_count, std::size_t moment_count, bool split);

}  // namespace strata::engine
