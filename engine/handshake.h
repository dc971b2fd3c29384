// What ranks compare before they work together, and the budget that all of them can keep.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <strata/communicator.h>
#include <strata/optimizer.h>
#include <strata/options.h>
#include <strata/unit.h>

namespace strata::engine {

// "name=value" lines: options that must agree, the optimizer, every unit and tensor.
std::string settings_text(std::span<const Unit> units, const Optimizer& optimizer, const Options& options);

// Collective. Throws mismatch on every rank, naming the first line that differs and what two ranks have there.
void compare_settings(Communicator& communicator, const std::string& text);

// Collective: the least of the ranks' values.
std::uint64_t least_over_ranks(Communicator& communicator, std::uint64_t value);

}  // namespace strata::engine
