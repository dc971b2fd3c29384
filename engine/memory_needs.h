// Every buffer of an engine: its parts, sizes and owner. The plan prints it and the engine takes it, so both are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <strata/options.h>
#include <strata/plan.h>
#include "sharding/flat_layout.h"

namespace strata::engine {

inline constexpr std::size_t page_bytes = 4096;

// Pieces that lie one behind the other in one buffer, each from a page border on.
struct Buffer {
  std::vector<std::size_t> offsets;  // bytes, by unit or slot
  std::vector<std::size_t> sizes;    // bytes, as asked for
  std::size_t total_bytes = 0;       // a multiple of the page

  void add(std::size_t bytes);
};

// Sizes of this rank. An exchange buffer of kind `common` is taken once by all ranks of a host.
struct MemoryNeeds {
  Buffer published;      // by unit: whole (stages 0-2) or shards (3)
  Buffer param_slots;    // by slot, whole units in common memory; stage 3 only
  Buffer grad_slots;     // by slot; the first ones are each unit's own at stages 0-1 under micro_batch
  Buffer accumulators;   // by unit
  Buffer records;        // by unit: per chunk master | moments
  Buffer norm_leaves;    // by unit
  Buffer agreement_all;  // one piece in common memory: what all ranks say in a step
  Buffer agreement_own;  // one piece: what this rank says

  bool published_in_exchange = false;     // peers read it (stages 1-2)
  bool grad_slots_in_exchange = false;    // peers read them (micro_batch)
  bool accumulators_in_exchange = false;  // peers read them (stage 0, or policy step)
  std::size_t own_grad_slot_count = 0;    // units with a gradient slot of their own
};

// What the sizes follow from.
struct MemoryShape {
  std::span<const sharding::FlatLayout> layouts;
  int world_size = 1;
  std::size_t moment_count = 0;
  std::uint32_t prefetch = 0;
};

MemoryNeeds memory_needs(const MemoryShape& shape, const Options& options);

// Rows of the plan for these needs; their sum is what a rank takes. `shared_exchange` as in Machine.
std::vector<PlanRow> plan_rows(const MemoryNeeds& needs, int world_size, bool shared_exchange);

// Bytes of one common buffer that a rank owns.
std::size_t owned_share_bytes(std::size_t total_bytes, int world_size, bool shared_exchange);

// Elements of the trainable part whose state this rank holds: all (stage 0) or its shard.
sharding::FlatRange state_range(const sharding::FlatLayout& layout, int stage, int rank);

}  // namespace strata::engine
