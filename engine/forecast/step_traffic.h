// What a plan makes travel in a step.
#pragma once

#include <cstdint>
#include <span>

#include <strata/options.h>
#include <strata/unit.h>
#include "engine/forecast/step_forecast.h"
#include "engine/placement.h"

namespace strata::engine {

// Of a plan, beside where things lie.
struct TrafficShape {
  int world_size = 1;
  std::uint32_t prefetch = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t micro_batch_count = 1;
};

// Pure. `units` are those that `state` has the layouts of.
StepTraffic step_traffic(std::span<const Unit> units, const StateShape& state, const Placement& placement,
                         const TrafficShape& shape, const Options& options);

}  // namespace strata::engine
