// Options that are legal one by one but not together.
#pragma once

#include <strata/options.h>

namespace strata::detail {

// Throws Error{invalid_argument} with the reason, and the option that would make it legal.
void refuse_illegal_combinations(const Options& options);

}  // namespace strata::detail
