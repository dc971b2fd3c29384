// From a model's description to an engine with its memory and lanes.
#pragma once

#include <memory>
#include <vector>

#include "engine/context.h"

namespace strata::engine {

// Collective: checks, compares settings with all ranks, plans, takes the memory and cuts it up.
void start(EngineContext& context, std::vector<Unit> units, std::shared_ptr<const Optimizer> optimizer,
           Communicator& communicator, const Options& options);

void start_lanes(EngineContext& context);

}  // namespace strata::engine
