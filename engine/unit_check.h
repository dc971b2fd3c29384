// Whether a model's description makes sense, before anything is done with it.
#pragma once

#include <span>

#include <strata/unit.h>

namespace strata::engine {

// Throws invalid_argument naming the unit or tensor: no units, empty or repeated names, impossible shapes or factors.
void check_units(std::span<const Unit> units);

}  // namespace strata::engine
