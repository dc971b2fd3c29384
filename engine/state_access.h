// Initial values in, values and their hash out: the state that this rank holds, element by element.
#pragma once

#include <cstdint>

#include <strata/engine.h>
#include "engine/context.h"
#include "engine/update_pipeline.h"

namespace strata::engine {

// Collective at stages 1-2. Masters from the initializer, moments 0, published copies whole. REQUIRES drained lanes.
void initialize_state(EngineContext& context, const UpdatePipeline& update, const Initializer& initializer);

// This rank's share of the sum over all elements of mix(hash(tensor name, kind), index, bits); frozen values count as
// masters. Elements that several ranks hold are counted by one. REQUIRES drained lanes.
std::uint64_t own_state_hash(const EngineContext& context, const UpdatePipeline& update);

// REQUIRES drained lanes.
void visit_state(const EngineContext& context, const UpdatePipeline& update, const StateVisitor& visitor);

}  // namespace strata::engine
