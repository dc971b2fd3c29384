// Published values: from masters and back, the frozen ones in and out of wherever they lie, and whole again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/chunk_stream.h"
#include "engine/context.h"
#include "engine/shard_loader.h"

namespace strata::engine {

void publish(std::span<const float> values, std::byte* target, Dtype dtype);
void read_published(const std::byte* source, Dtype dtype, std::span<float> values);

// One NaN for all, so that a published NaN and its master agree.
void make_nan_canonical(std::span<float> values);

// The frozen elements that this rank holds: all (stages 0-2) or its shard.
sharding::FlatRange frozen_held(const EngineContext& context, std::size_t unit);

// Calls fill(range, target) for pieces of the frozen elements held, in order, `target` being where the first belongs.
// REQUIRES that no pass over the chunks is under way.
void write_frozen(EngineContext& context, ChunkStream& chunks, std::size_t unit,
                  const std::function<void(sharding::FlatRange, std::byte*)>& fill);

// Calls use(data) with the frozen elements held, where there are any. REQUIRES drained lanes.
void read_frozen(const EngineContext& context, ShardLoader& loader, std::size_t unit,
                 const std::function<void(const std::byte*)>& use);

// Stages 1-2: every rank's shard into the whole copy. Collective, on the thread of the communication lane, or on the
// caller's while that is drained.
void complete_published(EngineContext& context, std::size_t unit, std::string_view act);

// 0, 1, 2, ...: for passes over all units.
std::vector<std::uint32_t> all_units(const EngineContext& context);

}  // namespace strata::engine
