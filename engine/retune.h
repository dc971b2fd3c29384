// Other tiers, budgets and schedule for an engine that has trained already.
#pragma once

#include "engine/context.h"
#include "engine/state_access.h"

namespace strata::engine {

// Throws invalid_argument naming an option that cannot change: what decides the bits, or how ranks talk.
void check_retune(const Options& now, const Options& wanted);

// Old and new memory stand side by side while the state moves. Throws out_of_budget naming the budget that both exceed.
void check_peak(const Plan& held, const Plan& wanted, const Options& options);

// Masters, moments, published and frozen values, chunk by chunk. Collective at stages 1-2. REQUIRES drained lanes.
void copy_state(const EngineContext& from, const StatePasses& from_passes, EngineContext& to, ChunkStream& to_chunks);

// Collective: gives back exchanged memory.
void release_exchange(Communicator& communicator, EngineMemory& memory);

}  // namespace strata::engine
