#include "engine/state_access.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <strata/detail/cast.h>

namespace strata::engine {
namespace {

constexpr std::size_t scratch_count = 16 * 1024;

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

// One NaN for all, so that a published NaN and its master agree.
void make_nan_canonical(std::span<float> values) {
  for (float& value : values) {
    if (std::isnan(value)) value = std::bit_cast<float>(detail::f32_nan_bits);
  }
}

// The frozen elements that this rank holds, and where they start in `published`.
struct FrozenPlace {
  sharding::FlatRange held;
  std::byte* data;
};

FrozenPlace frozen_place(const EngineContext& context, std::size_t unit) {
  const sharding::FlatLayout& layout = context.layouts[unit];
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  std::byte* published = context.states[unit].published;
  if (context.options.stage < 3) {
    return {{0, layout.frozen().full_count}, published + layout.frozen_begin() * element_bytes};
  }
  return {layout.shard(Training::frozen, context.rank()), published + layout.trainable().shard_count * element_bytes};
}

void initialize_frozen(EngineContext& context, std::size_t unit, const Initializer& initializer,
                       std::span<float> scratch) {
  const FrozenPlace place = frozen_place(context, unit);
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  context.layouts[unit].ranges_of(
      Training::frozen, place.held, [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
        for (std::size_t done = 0; done < count; done += scratch.size()) {
          const std::span<float> values = scratch.first(std::min(scratch.size(), count - done));
          initializer(context.units[unit].tensors[tensor], first + done, values);
          make_nan_canonical(values);
          publish(values, place.data + (offset + done - place.held.begin) * element_bytes, context.options.dtype);
        }
      });
}

void initialize_trainable(EngineContext& context, const UpdatePipeline& update, std::size_t unit,
                          const Initializer& initializer) {
  UnitState& state = context.states[unit];
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  for (std::size_t c = 0; c < update.chunk_count_of(unit); ++c) {
    const ChunkPlace chunk = update.chunk(unit, c);
    const std::size_t record_count = chunk.count * (1 + context.optimizer->moment_names().size());
    std::memset(chunk.master, 0, record_count * sizeof(float));
    const std::size_t begin = state.state.begin + chunk.begin;
    context.layouts[unit].ranges_of(Training::trainable, {begin, begin + chunk.count},
                                    [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
                                      const std::span<float> values(chunk.master + (offset - begin), count);
                                      initializer(context.units[unit].tensors[tensor], first, values);
                                      make_nan_canonical(values);
                                    });
    publish({chunk.master, chunk.count}, state.published_shard + chunk.begin * element_bytes, context.options.dtype);
  }
}

struct Piece {
  const Tensor* tensor;
  std::string_view kind;
  std::size_t first;  // element in the tensor
  std::span<const float> values;
};

// Calls visit for all pieces of trainable state that this rank holds within `range` of the unit's trainable part.
template <typename Visit>
void visit_trainable(const EngineContext& context, const UpdatePipeline& update, std::size_t unit,
                     sharding::FlatRange range, const Visit& visit) {
  const UnitState& state = context.states[unit];
  const auto moment_names = context.optimizer->moment_names();
  for (std::size_t c = 0; c < update.chunk_count_of(unit); ++c) {
    const ChunkPlace chunk = update.chunk(unit, c);
    const std::size_t chunk_begin = state.state.begin + chunk.begin;
    const sharding::FlatRange part{std::max(chunk_begin, range.begin), std::min(chunk_begin + chunk.count, range.end)};
    if (part.begin >= part.end) continue;
    context.layouts[unit].ranges_of(Training::trainable, part,
                                    [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
                                      const Tensor& which = context.units[unit].tensors[tensor];
                                      const std::size_t at = offset - chunk_begin;
                                      visit(Piece{&which, "master", first, {chunk.master + at, count}});
                                      for (std::size_t m = 0; m < moment_names.size(); ++m) {
                                        visit(Piece{&which, moment_names[m], first, {chunk.moments[m] + at, count}});
                                      }
                                    });
  }
}

template <typename Visit>
void visit_frozen(const EngineContext& context, std::size_t unit, sharding::FlatRange range, const Visit& visit) {
  const FrozenPlace place = frozen_place(context, unit);
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  std::vector<float> scratch(scratch_count);
  context.layouts[unit].ranges_of(
      Training::frozen, range, [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
        for (std::size_t done = 0; done < count; done += scratch.size()) {
          const std::span<float> values(scratch.data(), std::min(scratch.size(), count - done));
          const std::size_t at = offset + done - place.held.begin;
          read_published(place.data + at * element_bytes, context.options.dtype, values);
          visit(Piece{&context.units[unit].tensors[tensor], "master", first + done, values});
        }
      });
}

// Finalizer of splitmix64 over the element's identity and bits.
std::uint64_t element_hash(std::uint64_t name_hash, std::uint64_t index, std::uint32_t bits) {
  std::uint64_t x = name_hash + index * 0x9E3779B97F4A7C15ull;
  x ^= (static_cast<std::uint64_t>(bits) + 1) * 0xC2B2AE3D27D4EB4Full;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

std::uint64_t piece_hash(const Piece& piece) {
  const std::string& name = piece.tensor->name;
  const std::uint64_t kind_hash = XXH3_64bits(piece.kind.data(), piece.kind.size());
  const std::uint64_t name_hash = XXH3_64bits_withSeed(name.data(), name.size(), kind_hash);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < piece.values.size(); ++i) {
    sum += element_hash(name_hash, piece.first + i, std::bit_cast<std::uint32_t>(piece.values[i]));
  }
  return sum;
}

}  // namespace

void initialize_state(EngineContext& context, const UpdatePipeline& update, const Initializer& initializer) {
  std::vector<float> scratch(scratch_count);
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    initialize_trainable(context, update, unit, initializer);
    initialize_frozen(context, unit, initializer, scratch);
    const std::size_t shard_count = context.layouts[unit].trainable().shard_count;
    if (context.options.stage == 0 || context.options.stage == 3 || shard_count == 0) continue;
    EngineContext* shared = &context;
    context.states[unit].ready = context.comm_lane->enqueue([shared, unit, shard_count] {
      const UnitState& state = shared->states[unit];
      shared->communicator->all_gather(state.published_shard, state.published, shard_count, shared->options.dtype,
                                       shared->tag("initialize", unit));
    });
    context.states[unit].ready.wait();
  }
}

std::uint64_t own_state_hash(const EngineContext& context, const UpdatePipeline& update) {
  std::uint64_t sum = 0;
  const auto add = [&](const Piece& piece) { sum += piece_hash(piece); };
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    const sharding::FlatLayout& layout = context.layouts[unit];
    visit_trainable(context, update, unit, layout.shard(Training::trainable, context.rank()), add);
    visit_frozen(context, unit, layout.shard(Training::frozen, context.rank()), add);
  }
  return sum;
}

void visit_state(const EngineContext& context, const UpdatePipeline& update, const StateVisitor& visitor) {
  const auto show = [&](const Piece& piece) { visitor(*piece.tensor, piece.kind, piece.first, piece.values); };
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    visit_trainable(context, update, unit, context.states[unit].state, show);
    visit_frozen(context, unit, frozen_place(context, unit).held, show);
  }
}

}  // namespace strata::engine
