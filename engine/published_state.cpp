#include "engine/published_state.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include <strata/detail/cast.h>

namespace strata::engine {

void publish(std::span<const float> values, std::byte* target, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: detail::cast(values, std::span(reinterpret_cast<bf16*>(target), values.size())); return;
    case Dtype::f16: detail::cast(values, std::span(reinterpret_cast<f16*>(target), values.size())); return;
    default: std::memcpy(target, values.data(), values.size_bytes()); return;
  }
}

void read_published(const std::byte* source, Dtype dtype, std::span<float> values) {
  switch (dtype) {
    case Dtype::bf16: detail::cast(std::span(reinterpret_cast<const bf16*>(source), values.size()), values); return;
    case Dtype::f16: detail::cast(std::span(reinterpret_cast<const f16*>(source), values.size()), values); return;
    default: std::memcpy(values.data(), source, values.size_bytes()); return;
  }
}

void make_nan_canonical(std::span<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = std::bit_cast<float>(detail::f32_nan_bits);
  }
}

sharding::FlatRange frozen_held(const EngineContext& context, std::size_t unit) {
  const sharding::FlatLayout& layout = context.layouts[unit];
  if (context.options.stage < 3) return {0, layout.frozen().full_count};
  return layout.shard(Training::frozen, context.rank());
}

void write_frozen(EngineContext& context, ChunkStream& chunks, std::size_t unit,
                  const std::function<void(sharding::FlatRange, std::byte*)>& fill) {
  const sharding::FlatRange held = frozen_held(context, unit);
  if (held.count() == 0) return;
  const UnitState& state = context.states[unit];
  if (!state.published_on_nvme) return fill(held, state.frozen);
  const std::span<std::byte> room = chunks.spare_published_room();
  offload::SealedStore& sealed = *context.memory.sealed;
  std::size_t item = state.frozen_items;
  for (std::size_t begin = held.begin; begin < held.end; begin += context.plan.chunk_count, ++item) {
    const std::size_t end = std::min<std::size_t>(begin + context.plan.chunk_count, held.end);
    std::memset(room.data(), 0, room.size());
    fill({begin, end}, room.data());
    context.memory.item_stored[item] = sealed.store(item, room.first(sealed.padded_bytes(item)));
    context.memory.item_stored[item].wait();  // the room is used again
  }
}

void read_frozen(const EngineContext& context, ShardLoader& loader, std::size_t unit,
                 const std::function<void(const std::byte*)>& use) {
  if (frozen_held(context, unit).count() == 0) return;
  const UnitState& state = context.states[unit];
  if (!state.published_on_nvme) return use(state.frozen);
  loader.want(unit);
  const std::byte* const frozen = loader.take().frozen;
  try {
    use(frozen);
  } catch (...) {
    loader.give_back();
    throw;
  }
  loader.give_back();
}

void complete_published(EngineContext& context, std::size_t unit, std::string_view act) {
  const std::size_t shard_count = context.layouts[unit].trainable().shard_count;
  if (context.options.stage == 0 || context.options.stage == 3 || shard_count == 0) return;
  const UnitState& state = context.states[unit];
  context.communicator->all_gather(state.published_shard, state.published, shard_count, context.options.dtype,
                                   context.tag(act, unit));
}

std::vector<std::uint32_t> all_units(const EngineContext& context) {
  std::vector<std::uint32_t> units(context.units.size());
  std::iota(units.begin(), units.end(), 0u);
  return units;
}

}  // namespace strata::engine
