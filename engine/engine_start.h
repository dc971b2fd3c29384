// From a model's description to an engine with its memory and lanes.
#pragma once

#include <memory>
#include <vector>

#include "engine/context.h"

namespace strata::engine {

// What an engine is of, for all its life.
struct EngineParts {
  std::vector<Unit> units;
  std::shared_ptr<const Optimizer> optimizer;
  Communicator& communicator;
};

// Collective: checks, compares settings with all ranks, plans, takes the memory and cuts it up. `held`, where there is
// one, is the plan whose memory stays taken meanwhile.
void start(EngineContext& context, EngineParts parts, const Options& options, const Plan* held = nullptr);

// Names of tensors to their indices. The states' maps refer to the names in context.units.
void index_tensors(EngineContext& context);

void start_lanes(EngineContext& context);

}  // namespace strata::engine
