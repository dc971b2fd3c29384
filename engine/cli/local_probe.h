// The speed of this host as ranks of a job would see it.
#pragma once

#include <strata/machine_speed.h>
#include <strata/options.h>

namespace strata::cli {

// With `rank_count` threads in the place of ranks.
MachineSpeed probe_this_host(int rank_count, const Options& options);

}  // namespace strata::cli
