// Every buffer of an engine: its parts, sizes and owner. The plan prints it and the engine takes it, so both are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <strata/options.h>
#include <strata/plan.h>
#include "engine/activation_needs.h"
#include "engine/placement.h"
#include "offload/sealed_store.h"
#include "sharding/flat_layout.h"

namespace strata::engine {

// Pieces that lie one behind the other in one buffer, each from a page border on.
struct Buffer {
  std::vector<std::size_t> offsets;  // bytes, by unit or slot
  std::vector<std::size_t> sizes;    // bytes, as asked for
  std::size_t total_bytes = 0;       // a multiple of the page

  void add(std::size_t bytes);
};

// What moves between nvme and memory, and what it moves through: all of it private host memory on 2 MiB pages.
inline constexpr std::size_t spilled_item_bytes = offload::SealedStore::table_bytes_per_item + sizeof(Event);

struct SpillNeeds {
  std::uint64_t nvme_record_bytes = 0;  // two copies each
  std::uint64_t nvme_published_bytes = 0;
  std::uint64_t nvme_accumulator_bytes = 0;
  std::size_t item_count = 0;  // sealed items

  // A slot holds what the update of one chunk loads and stores: record | gradient | published.
  std::size_t slot_count = 0;
  std::size_t slot_record_bytes = 0;
  std::size_t slot_gradient_bytes = 0;
  std::size_t slot_published_bytes = 0;

  // Whole shards of one unit, on their way to a gather or from a reduction.
  std::size_t published_staging_count = 0;
  std::size_t published_staging_bytes = 0;  // of each
  std::size_t accumulator_staging_count = 0;
  std::size_t accumulator_staging_bytes = 0;  // of each

  std::size_t joined_master_bytes = 0;  // one chunk's masters in f32, to initialise, hash and visit split ones

  std::uint64_t nvme_bytes() const { return nvme_record_bytes + nvme_published_bytes + nvme_accumulator_bytes; }
  std::size_t slot_bytes() const { return slot_record_bytes + slot_gradient_bytes + slot_published_bytes; }
  std::size_t slots_bytes() const { return slot_count * slot_bytes() + joined_master_bytes; }
  std::size_t staging_bytes() const {
    return published_staging_count * published_staging_bytes + accumulator_staging_count * accumulator_staging_bytes;
  }
  std::size_t io_bytes() const { return slots_bytes() + staging_bytes(); }  // one arena
};

// Sizes of this rank. An exchange buffer of kind `common` is taken once by all ranks of a host. Buffers by unit hold
// nothing of units whose part lies in another tier.
struct MemoryNeeds {
  Buffer published;       // by unit: whole (stages 0-2) or shards (3)
  Buffer host_published;  // by unit
  Buffer param_slots;     // by slot, whole units in common memory; stage 3 only
  Buffer grad_slots;      // by slot; the first ones are each unit's own at stages 0-1 under micro_batch
  Buffer accumulators;    // by unit
  Buffer host_accumulators;
  Buffer records;  // by unit: per chunk master | moments
  Buffer host_records;
  Buffer norm_leaves;    // by unit
  Buffer agreement_all;  // one piece in common memory: what all ranks say in a step
  Buffer agreement_own;  // one piece: what this rank says
  SpillNeeds spill;
  ActivationNeeds activations;
  TierKind activation_home = TierKind::device;

  bool published_in_exchange = false;     // peers read it (stages 1-2)
  bool grad_slots_in_exchange = false;    // peers read them (micro_batch)
  bool accumulators_in_exchange = false;  // peers read them (stage 0, or policy step)
  std::size_t own_grad_slot_count = 0;    // units with a gradient slot of their own
};

// What the sizes follow from.
struct MemoryShape {
  StateShape state;
  int world_size = 1;
  std::uint32_t prefetch = 0;
  std::uint32_t slot_count = 0;  // record slots, where anything lies on nvme
};

MemoryNeeds memory_needs(const MemoryShape& shape, const Placement& placement, const Options& options);

// All that is reserved on the disk.
inline std::uint64_t nvme_bytes(const MemoryNeeds& needs) {
  return needs.spill.nvme_bytes() + needs.activations.nvme_bytes(needs.activation_home);
}

// Rows of the plan for these needs; their sum is what a rank takes. `shared_exchange` as in Machine.
std::vector<PlanRow> plan_rows(const MemoryNeeds& needs, int world_size, bool shared_exchange);

// Bytes of one common buffer that a rank owns.
std::size_t owned_share_bytes(std::size_t total_bytes, int world_size, bool shared_exchange);

}  // namespace strata::engine
