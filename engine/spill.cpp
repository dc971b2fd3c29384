#include "engine/spill.h"

#include <algorithm>
#include <utility>

#include "offload/nvme_tier.h"

namespace strata::engine {
namespace {

// Sealed items of one unit: records, published values, frozen values, accumulators, one a chunk.
void add_items(EngineContext& context, const StateShape& shape, std::size_t unit) {
  using offload::Content;
  using offload::Copies;
  offload::SealedStore& sealed = *context.memory.sealed;
  UnitState& state = context.states[unit];
  const PartSizes sizes(shape, unit, context.options);
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  const auto id = static_cast<std::uint32_t>(unit);
  const auto add_all = [&](Content content, std::size_t count, std::size_t bytes_per) {
    std::size_t first = 0;
    for (std::size_t c = 0; c * sizes.chunk_count < count; ++c) {
      const std::size_t elements = std::min(sizes.chunk_count, count - c * sizes.chunk_count);
      const std::size_t item =
          sealed.add({content, id, static_cast<std::uint32_t>(c)}, round_to_page(elements * bytes_per), Copies::one);
      if (c == 0) first = item;
    }
    return first;
  };
  const RecordHomes& homes = state.record_homes;
  for (std::uint32_t c = homes.device + homes.host; c < homes.count(); ++c) {
    const std::size_t bytes = nvme_record_bytes(sizes.elements_of(c), shape.moment_count, state.split_master);
    const std::size_t item = sealed.add({Content::record, id, c}, bytes, Copies::two);
    if (c == homes.device + homes.host) state.record_items = item;
  }
  const sharding::FlatLayout& layout = context.layouts[unit];
  if (state.published_on_nvme) {
    state.published_items = add_all(Content::published, layout.trainable().shard_count, element_bytes);
    state.frozen_items = add_all(Content::frozen, layout.frozen().shard_count, element_bytes);
  }
  if (state.accumulator_on_nvme) {
    state.accumulator_items = add_all(Content::accumulator, layout.trainable().shard_count, sizeof(float));
  }
}

}  // namespace

void take_spill(EngineContext& context) {
  const SpillNeeds& spill = context.needs.spill;
  EngineMemory& memory = context.memory;
  memory.host_bytes += spill.io_bytes();
  memory.io = offload::PrivateMemory(spill.io_bytes());
  if (nvme_bytes(context.needs) == 0) return;
  offload::DiskOptions disk;
  disk.dirs = context.options.nvme_dirs;
  disk.backend = context.options.io;
  disk.inflight_bytes = context.options.io_inflight_bytes;
  disk.block_bytes = context.options.io_block_bytes;
  disk.capacity_bytes = nvme_bytes(context.needs);
  disk.buffers = {memory.io.bytes()};
  auto tier = std::make_unique<offload::NvmeTier>(disk);
  memory.warnings = tier->warnings();
  memory.nvme = std::move(tier);
  memory.sealed = std::make_unique<offload::SealedStore>(*memory.nvme);
  memory.nvme_bytes = nvme_bytes(context.needs);
  memory.host_bytes += spill.item_count * spilled_item_bytes;
  const StateShape shape{context.layouts, context.optimizer->moment_names().size(), context.plan.chunk_count};
  for (std::size_t i = 0; i < context.units.size(); ++i) add_items(context, shape, i);
  memory.item_stored.resize(spill.item_count);
}

}  // namespace strata::engine
