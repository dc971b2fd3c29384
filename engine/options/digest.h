// What ranks compare about their options before they work together.
#pragma once

#include <string>

#include <strata/options.h>

namespace strata::detail {

// "name=value" lines, in a fixed order, of the options that must be the same on all ranks: those that decide which
// calls are made in which order, and what is rounded how. Budgets, threads, waits and output may differ.
std::string engine_settings_digest_text(const Options& options);

}  // namespace strata::detail
