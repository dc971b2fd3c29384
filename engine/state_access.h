// Initial values in, values and their hash out: the state that this rank holds, element by element.
#pragma once

#include <cstdint>

#include <strata/engine.h>
#include "engine/chunk_stream.h"
#include "engine/context.h"
#include "engine/shard_loader.h"

namespace strata::engine {

// What brings the state into memory, a piece at a time.
struct StatePasses {
  ChunkStream& chunks;
  ShardLoader& shards;
};

// Collective at stages 1-2. Masters from the initializer, moments 0, published copies whole. REQUIRES drained lanes.
void initialize_state(EngineContext& context, ChunkStream& chunks, const Initializer& initializer);

// This rank's share of the sum over all elements of mix(hash(tensor name, kind), index, bits); frozen values count as
// masters. Elements that several ranks hold are counted by one. REQUIRES drained lanes.
std::uint64_t own_state_hash(const EngineContext& context, const StatePasses& passes);

// REQUIRES drained lanes. A visitor may throw.
void visit_state(const EngineContext& context, const StatePasses& passes, const StateVisitor& visitor);

}  // namespace strata::engine
