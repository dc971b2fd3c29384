// The parts of probe_machine(): each fills its own rates of this rank, while the other ranks measure the same.
#pragma once

#include <cstdint>
#include <optional>

#include <strata/communicator.h>
#include <strata/machine_speed.h>
#include <strata/options.h>

namespace strata::engine {

// Collective. `threads` of the update.
void probe_memory(Communicator& communicator, std::uint32_t threads, MachineSpeed& speed);

// Collective. A rank whose options name no directory takes part without measuring, and its rates stay 0; so do those of
// a disk without room.
void probe_disk(Communicator& communicator, const Options& options, MachineSpeed& speed);

// Collective.
void probe_calls(Communicator& communicator, MachineSpeed& speed);

}  // namespace strata::engine
