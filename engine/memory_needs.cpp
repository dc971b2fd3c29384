#include "engine/memory_needs.h"

#include <algorithm>

#include "engine/agreement.h"

namespace strata::engine {
namespace {

std::size_t round_to_page(std::size_t bytes) { return (bytes + page_bytes - 1) / page_bytes * page_bytes; }

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
  for (const auto& layout : shape.layouts) largest = std::max(largest, layout.trainable().full_count * element_bytes);
  std::size_t spare_count = options.leases;
  if (options.stage <= 1 && options.reduce == ReducePolicy::micro_batch) {
    // Gradients are not sharded: every unit keeps a lease of its own, and no commit waits for another unit's reduction.
    for (const auto& layout : shape.layouts) needs.grad_slots.add(layout.trainable().full_count * element_bytes);
    needs.own_grad_slot_count = shape.layouts.size();
    spare_count = options.leases - 1;  // further leases of one unit at a time
  }
  for (std::size_t i = 0; i < spare_count; ++i) needs.grad_slots.add(largest);
}

}  // namespace

void Buffer::add(std::size_t bytes) {
  offsets.push_back(total_bytes);
  sizes.push_back(bytes);
  total_bytes += round_to_page(bytes);
}

sharding::FlatRange state_range(const sharding::FlatLayout& layout, int stage, int rank) {
  return stage == 0 ? sharding::FlatRange{0, layout.trainable().full_count} : layout.shard(Training::trainable, rank);
}

MemoryNeeds memory_needs(const MemoryShape& shape, const Options& options) {
  MemoryNeeds needs;
  needs.published_in_exchange = options.stage == 1 || options.stage == 2;
  needs.grad_slots_in_exchange = options.reduce == ReducePolicy::micro_batch;
  needs.accumulators_in_exchange = options.stage == 0 || options.reduce == ReducePolicy::step;

  const std::size_t published_bytes = bytes_per_element(options.dtype);
  const std::size_t record_bytes = sizeof(float) * (1 + shape.moment_count);
  std::vector<std::size_t> unit_bytes;
  std::size_t agreement_bytes = 0;
  for (const auto& layout : shape.layouts) {
    const sharding::FlatPart& trainable = layout.trainable();
    const std::size_t shard_count = trainable.shard_count;
    const bool whole_accumulator = options.stage == 0 || options.reduce == ReducePolicy::step;
    unit_bytes.push_back(layout.whole_count() * published_bytes);
    needs.published.add(options.stage == 3 ? (shard_count + layout.frozen().shard_count) * published_bytes
                                           : layout.whole_count() * published_bytes);
    needs.accumulators.add((whole_accumulator ? trainable.full_count : shard_count) * sizeof(float));
    needs.records.add(state_range(layout, options.stage, 0).count() * record_bytes);
    needs.norm_leaves.add(shard_count / norm_leaf_count * sizeof(double));
    agreement_bytes += agreement_node_bytes(layout);
  }
  if (options.stage == 3) add_param_slots(needs.param_slots, unit_bytes, options, shape.prefetch);
  add_grad_slots(needs, shape, options);
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
  const auto add = [&](const char* what, Ownership ownership, std::size_t bytes) {
    if (bytes > 0) rows.push_back({what, TierKind::device, ownership, bytes});
  };
  const auto owner = [](bool in_exchange) {
    return in_exchange ? Ownership::shared_memory : Ownership::private_memory;
  };
  add("published parameters", owner(needs.published_in_exchange), needs.published.total_bytes);
  add("gathered units", Ownership::shared_memory,
      owned_share_bytes(needs.param_slots.total_bytes, world_size, shared_exchange));
  add("gradient leases", owner(needs.grad_slots_in_exchange), needs.grad_slots.total_bytes);
  add("gradient accumulators", owner(needs.accumulators_in_exchange), needs.accumulators.total_bytes);
  add("master and moments", Ownership::private_memory, needs.records.total_bytes);
  add("norm leaves", Ownership::private_memory, needs.norm_leaves.total_bytes);
  add("agreement", Ownership::private_memory, needs.agreement_own.total_bytes);
  add("agreement of all ranks", Ownership::shared_memory,
      owned_share_bytes(needs.agreement_all.total_bytes, world_size, shared_exchange));
  return rows;
}

}  // namespace strata::engine
