#include "engine/state_access.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "engine/published_state.h"

namespace strata::engine {
namespace {

constexpr std::size_t scratch_count = 16 * 1024;

// Where initial values come from, and room for some of them.
struct StateInput {
  const Initializer& initializer;
  std::span<float> scratch;
};

// Publishes the initial values of frozen elements in `range`, the first of which stands at `target`.
void fill_frozen(EngineContext& context, std::size_t unit, sharding::FlatRange range, std::byte* target,
                 const StateInput& input) {
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  context.layouts[unit].ranges_of(
      Training::frozen, range, [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
        for (std::size_t done = 0; done < count; done += input.scratch.size()) {
          const std::span<float> values = input.scratch.first(std::min(input.scratch.size(), count - done));
          input.initializer(context.units[unit].tensors[tensor], first + done, values);
          make_nan_canonical(values);
          publish(values, target + (offset + done - range.begin) * element_bytes, context.options.dtype);
        }
      });
}

void initialize_trainable(EngineContext& context, ChunkStream& chunks, std::size_t unit,
                          const Initializer& initializer) {
  const UnitState& state = context.states[unit];
  for (std::size_t c = 0; c < chunks.chunk_count_of(unit); ++c) {
    const ChunkView chunk = chunks.take(unit, c);
    const std::span<float> masters = chunks.join_masters(chunk);
    std::fill(masters.begin(), masters.end(), 0.0f);
    for (float* moment : chunk.moments) {
      if (moment != nullptr) std::fill_n(moment, chunk.count, 0.0f);
    }
    const std::size_t begin = state.state.begin + chunk.begin;
    context.layouts[unit].ranges_of(Training::trainable, {begin, begin + chunk.count},
                                    [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
                                      const std::span<float> values = masters.subspan(offset - begin, count);
                                      initializer(context.units[unit].tensors[tensor], first, values);
                                      make_nan_canonical(values);
                                    });
    publish(masters, chunk.published, context.options.dtype);
    chunks.split_masters(chunk, masters);
    chunks.give_back(chunk);
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
void visit_trainable(const EngineContext& context, ChunkStream& chunks, std::size_t unit, sharding::FlatRange range,
                     const Visit& visit) {
  const UnitState& state = context.states[unit];
  const auto moment_names = context.optimizer->moment_names();
  for (std::size_t c = 0; c < chunks.chunk_count_of(unit); ++c) {
    const ChunkView chunk = chunks.take(unit, c);
    const std::span<const float> masters = chunks.join_masters(chunk);
    const std::size_t chunk_begin = state.state.begin + chunk.begin;
    const sharding::FlatRange part{std::max(chunk_begin, range.begin), std::min(chunk_begin + chunk.count, range.end)};
    if (part.begin < part.end) {
      context.layouts[unit].ranges_of(
          Training::trainable, part, [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
            const Tensor& which = context.units[unit].tensors[tensor];
            const std::size_t at = offset - chunk_begin;
            visit(Piece{&which, "master", first, masters.subspan(at, count)});
            for (std::size_t m = 0; m < moment_names.size(); ++m) {
              visit(Piece{&which, moment_names[m], first, {chunk.moments[m] + at, count}});
            }
          });
    }
    chunks.give_back(chunk);
  }
}

template <typename Visit>
void visit_frozen(const EngineContext& context, ShardLoader& loader, std::size_t unit, sharding::FlatRange range,
                  const Visit& visit) {
  const std::size_t held_begin = frozen_held(context, unit).begin;
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  std::vector<float> scratch(scratch_count);
  read_frozen(context, loader, unit, [&](const std::byte* data) {
    context.layouts[unit].ranges_of(
        Training::frozen, range, [&](std::size_t tensor, std::size_t first, std::size_t offset, std::size_t count) {
          for (std::size_t done = 0; done < count; done += scratch.size()) {
            const std::span<float> values(scratch.data(), std::min(scratch.size(), count - done));
            read_published(data + (offset + done - held_begin) * element_bytes, context.options.dtype, values);
            visit(Piece{&context.units[unit].tensors[tensor], "master", first + done, values});
          }
        });
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

void initialize_state(EngineContext& context, ChunkStream& chunks, const Initializer& initializer) {
  std::vector<float> scratch(scratch_count);
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    write_frozen(context, chunks, unit, [&](sharding::FlatRange range, std::byte* target) {
      fill_frozen(context, unit, range, target, {initializer, scratch});
    });
  }
  chunks.begin(Access::write, all_units(context));
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    initialize_trainable(context, chunks, unit, initializer);
    EngineContext* shared = &context;
    context.states[unit].ready =
        context.comm_lane->enqueue([shared, unit] { complete_published(*shared, unit, "initialize"); });
    context.states[unit].ready.wait();
  }
  chunks.wait_stored();
}

std::uint64_t own_state_hash(const EngineContext& context, const StatePasses& passes) {
  std::uint64_t sum = 0;
  const auto add = [&](const Piece& piece) { sum += piece_hash(piece); };
  passes.chunks.begin(Access::read, all_units(context));
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    const sharding::FlatLayout& layout = context.layouts[unit];
    visit_trainable(context, passes.chunks, unit, layout.shard(Training::trainable, context.rank()), add);
    visit_frozen(context, passes.shards, unit, layout.shard(Training::frozen, context.rank()), add);
  }
  return sum;
}

void visit_state(const EngineContext& context, const StatePasses& passes, const StateVisitor& visitor) {
  const auto show = [&](const Piece& piece) { visitor(*piece.tensor, piece.kind, piece.first, piece.values); };
  passes.chunks.begin(Access::read, all_units(context));
  for (std::size_t unit = 0; unit < context.units.size(); ++unit) {
    visit_trainable(context, passes.chunks, unit, context.states[unit].state, show);
    visit_frozen(context, passes.shards, unit, frozen_held(context, unit), show);
  }
}

}  // namespace strata::engine
