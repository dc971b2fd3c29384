// How ranks find each other.
#pragma once

#include <memory>
#include <vector>

#include <strata/communicator.h>

namespace strata {

struct JoinOptions {
  double join_s = 60;  // to find all ranks; the error names the missing ones
  Deadlines deadlines;
};

// Reads who this process is from the environment of `strata run` (STRATA_RANK, STRATA_WORLD_SIZE, STRATA_JOB), torchrun
// (RANK, WORLD_SIZE, ...), Open MPI or Slurm, in this order, and joins its peers over shared memory; without any of
// them, or with one rank, a solo world. Throws invalid_argument for contradictory variables, unsupported for ranks on
// several hosts, peer_lost for ranks that do not come, mismatch for a second process with the same rank or another
// world size.
std::unique_ptr<Communicator> join_from_env(const JoinOptions& options = {});

// One rank that has no peers.
std::unique_ptr<Communicator> solo_world();

// `size` ranks for threads of this process, by the same code and the same kind of segment as between processes.
// Each communicator is to be used by a thread of its own.
std::vector<std::unique_ptr<Communicator>> local_world(int size, const Deadlines& deadlines = {});

}  // namespace strata
