#include "engine/memory_needs.h"

#include <algorithm>

#include "engine/agreement.h"

namespace strata::engine {
namespace {

// Slots for `lease_count` units of any size, then for prefetched ones of the next size class, so that one outsized unit
// (an embedding) does not make every slot as large as itself.
void add_param_slots(Buffer& slots, std::vector<std::size_t> unit_bytes, const Options& options,
                     std::uint32_t prefetch) {
  std::sort(unit_bytes.rbegin(), unit_bytes.rend());
  const std::size_t largest = unit_bytes.front();
  const std::size_t next = unit_bytes.size() > 1 ? unit_bytes[1] : 0;
  const auto lease_count = std::min<std::size_t>(options.leases, unit_bytes.size());
  for (std::size_t i = 0; i < lease_count; ++i) slots.add(largest);
  for (std::uint32_t i = 0; i < prefetch; ++i) slots.add(next);
}

void add_grad_slots(MemoryNeeds& needs, const MemoryShape& shape, const Options& options) {
  const std::size_t element_bytes = bytes_per_element(options.grad_dtype);
  std::size_t largest = 0;
  for (const auto& layout : shape.state.layouts)
    largest = std::max(largest, layout.trainable().full_count * element_bytes);
  std::size_t spare_count = options.leases;
  if (options.stage <= 1 && options.reduce == ReducePolicy::micro_batch) {
    // Gradients are not sharded: every unit keeps a lease of its own, and no commit waits for another unit's reduction.
    for (const auto& layout : shape.state.layouts) needs.grad_slots.add(layout.trainable().full_count * element_bytes);
    needs.own_grad_slot_count = shape.state.layouts.size();
    spare_count = options.leases - 1;  // further leases of one unit at a time
  }
  for (std::size_t i = 0; i < spare_count; ++i) needs.grad_slots.add(largest);
}

// One unit's part in the tier that holds it.
void add_part(Buffer& device, Buffer& host, TierKind home, std::size_t bytes) {
  device.add(home == TierKind::device ? bytes : 0);
  host.add(home == TierKind::host ? bytes : 0);
}

// What one unit has on nvme, and how large its chunks make a slot.
void add_spill(SpillNeeds& spill, const PartSizes& sizes, const MemoryShape& shape, const Placement& placement,
               std::size_t unit, const Options& options) {
  const bool split = splits_master(options, placement.published[unit]);
  const RecordHomes& homes = placement.records[unit];
  const std::size_t element_bytes = bytes_per_element(options.dtype);
  const std::size_t chunks = sizes.chunks();
  const std::size_t largest_count = chunks == 0 ? 0 : sizes.elements_of(0);
  for (std::size_t chunk = homes.device + homes.host; chunk < chunks; ++chunk) {
    const std::size_t bytes = nvme_record_bytes(sizes.elements_of(chunk), shape.state.moment_count, split);
    spill.nvme_record_bytes += 2 * bytes;
    spill.slot_record_bytes = std::max(spill.slot_record_bytes, bytes);
    if (split)
      spill.joined_master_bytes = std::max(spill.joined_master_bytes, sizes.elements_of(chunk) * sizeof(float));
    ++spill.item_count;
  }
  if (placement.published[unit] == TierKind::nvme && sizes.published_bytes > 0) {
    const std::size_t frozen_count = shape.state.layouts[unit].frozen().shard_count;
    const std::size_t frozen_chunks = (frozen_count + sizes.chunk_count - 1) / sizes.chunk_count;
    spill.nvme_published_bytes += sizes.published_bytes;
    spill.published_staging_bytes = std::max(spill.published_staging_bytes, sizes.published_bytes);
    spill.slot_published_bytes =
        std::max(spill.slot_published_bytes,
                 round_to_page(std::max(largest_count, std::min(frozen_count, sizes.chunk_count)) * element_bytes));
    spill.item_count += chunks + frozen_chunks;
  }
  if (placement.accumulators[unit] == TierKind::nvme && sizes.accumulator_bytes > 0) {
    spill.nvme_accumulator_bytes += round_to_page(sizes.accumulator_bytes);
    spill.accumulator_staging_bytes = std::max(spill.accumulator_staging_bytes, round_to_page(sizes.accumulator_bytes));
    spill.slot_gradient_bytes = std::max(spill.slot_gradient_bytes, round_to_page(largest_count * sizeof(float)));
    spill.item_count += chunks;
  }
}

}  // namespace

void Buffer::add(std::size_t bytes) {
  offsets.push_back(total_bytes);
  sizes.push_back(bytes);
  total_bytes += round_to_page(bytes);
}

MemoryNeeds memory_needs(const MemoryShape& shape, const Placement& placement, const Options& options) {
  MemoryNeeds needs;
  needs.published_in_exchange = options.stage == 1 || options.stage == 2;
  needs.grad_slots_in_exchange = options.reduce == ReducePolicy::micro_batch;
  needs.accumulators_in_exchange = accumulators_are_whole(options);

  std::vector<std::size_t> unit_bytes;
  std::size_t agreement_bytes = 0;
  for (std::size_t unit = 0; unit < shape.state.layouts.size(); ++unit) {
    const sharding::FlatLayout& layout = shape.state.layouts[unit];
    const PartSizes sizes(shape.state, unit, options);
    const RecordHomes& homes = placement.records[unit];
    unit_bytes.push_back(layout.whole_count() * bytes_per_element(options.dtype));
    add_part(needs.published, needs.host_published, placement.published[unit], sizes.published_bytes);
    add_part(needs.accumulators, needs.host_accumulators, placement.accumulators[unit], sizes.accumulator_bytes);
    needs.records.add(sizes.record_bytes(0, homes.device));
    needs.host_records.add(sizes.record_bytes(homes.device, homes.host));
    needs.norm_leaves.add(layout.trainable().shard_count / norm_leaf_count * sizeof(double));
    agreement_bytes += agreement_node_bytes(layout);
    add_spill(needs.spill, sizes, shape, placement, unit, options);
  }
  SpillNeeds& spill = needs.spill;
  if (spill.slot_bytes() > 0) spill.slot_count = shape.slot_count;
  if (spill.published_staging_bytes > 0) spill.published_staging_count = 1 + std::min(shape.prefetch, 2u);
  if (spill.accumulator_staging_bytes > 0) spill.accumulator_staging_count = 2;
  spill.joined_master_bytes = round_to_page(spill.joined_master_bytes);
  if (options.stage == 3) add_param_slots(needs.param_slots, unit_bytes, options, shape.prefetch);
  add_grad_slots(needs, shape, options);
  needs.activation_home = placement.activations;
  needs.activations = activation_needs(options, placement.activations);
  needs.agreement_own.add(agreement_head_bytes + agreement_bytes);
  needs.agreement_all.add((agreement_head_bytes + agreement_bytes) * static_cast<std::size_t>(shape.world_size));
  return needs;
}

std::size_t owned_share_bytes(std::size_t total_bytes, int world_size, bool shared_exchange) {
  if (!shared_exchange) return total_bytes;
  const auto ranks = static_cast<std::size_t>(world_size);
  return (total_bytes + ranks - 1) / ranks;
}

std::vector<PlanRow> plan_rows(const MemoryNeeds& needs, int world_size, bool shared_exchange) {
  std::vector<PlanRow> rows;
  const auto add = [&](const char* what, TierKind tier, Ownership ownership, std::uint64_t bytes) {
    if (bytes > 0) rows.push_back({what, tier, ownership, bytes});
  };
  const auto owner = [](bool in_exchange) {
    return in_exchange ? Ownership::shared_memory : Ownership::private_memory;
  };
  constexpr Ownership own = Ownership::private_memory;
  constexpr Ownership shared = Ownership::shared_memory;
  const auto in_tiers = [&](const char* what, Ownership on_device, std::uint64_t device_bytes, std::uint64_t host_bytes,
                            std::uint64_t nvme_bytes) {
    add(what, TierKind::device, on_device, device_bytes);
    add(what, TierKind::host, own, host_bytes);
    add(what, TierKind::nvme, own, nvme_bytes);
  };
  const SpillNeeds& spill = needs.spill;
  in_tiers("published parameters", owner(needs.published_in_exchange), needs.published.total_bytes,
           needs.host_published.total_bytes, spill.nvme_published_bytes);
  add("gathered units", TierKind::device, shared,
      owned_share_bytes(needs.param_slots.total_bytes, world_size, shared_exchange));
  add("gradient leases", TierKind::device, owner(needs.grad_slots_in_exchange), needs.grad_slots.total_bytes);
  in_tiers("gradient accumulators", owner(needs.accumulators_in_exchange), needs.accumulators.total_bytes,
           needs.host_accumulators.total_bytes, spill.nvme_accumulator_bytes);
  in_tiers("master and moments", own, needs.records.total_bytes, needs.host_records.total_bytes,
           spill.nvme_record_bytes);
  add("record slots", TierKind::host, own, spill.slots_bytes());
  add("shards on their way", TierKind::host, own, spill.staging_bytes());
  add("seals and versions", TierKind::host, own, spill.item_count * spilled_item_bytes);
  add("stashed activations", needs.activation_home, own, needs.activations.room_bytes);
  add("activation staging", TierKind::host, own, needs.activations.host_extra_bytes());
  add("norm leaves", TierKind::device, own, needs.norm_leaves.total_bytes);
  add("agreement", TierKind::device, own, needs.agreement_own.total_bytes);
  add("agreement of all ranks", TierKind::device, shared,
      owned_share_bytes(needs.agreement_all.total_bytes, world_size, shared_exchange));
  return rows;
}

}  // namespace strata::engine
