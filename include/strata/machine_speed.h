// How fast this machine moves bytes, measured in a moment: what the prediction of a step's time is made of.
#pragma once

#include <strata/communicator.h>
#include <strata/options.h>

namespace strata {

// Of one rank while all ranks of the host do the same. UNITS: bytes of memory are counted as they are read and again as
// they are written. 0 = not measured: such traffic costs nothing in a prediction.
struct MachineSpeed {
  double memory_bytes_per_s = 0;         // the update's pass over state, by all threads of the update
  double gather_bytes_per_s = 0;         // parameters between ranks
  double reduce_bytes_per_s = 0;         // gradients between ranks
  double split_bytes_per_s = 0;          // masters joined from their halves, and cut into them again, by one thread
  double seal_bytes_per_s = 0;           // checksums, by one thread, of what comes from the disk and goes back to it
  double disk_read_bytes_per_s = 0;      // only loads
  double disk_write_bytes_per_s = 0;     // only stores
  double disk_both_bytes_per_s = 0;      // loads and stores at once, half of each; the sum of both
  double disk_processor_s_per_byte = 0;  // what a core does for each byte that the disk moves
  double call_overhead_s = 0;            // of a collective without bytes
};

// Collective; the same on all ranks: the mean over them. Takes about 0.2 s and 36 MiB of memory; where the options name
// directories of nvme 0.5 s more, 16 MiB of memory and at most 128 MiB on the disk. Gives all of it back.
// Throws what the communicator throws, and io or invalid_argument for directories that cannot be used.
MachineSpeed probe_machine(Communicator& communicator, const Options& options);

}  // namespace strata
