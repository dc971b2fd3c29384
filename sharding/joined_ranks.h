// What a rendezvous leaves behind: who we are, and the segment that the ranks of a host share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <strata/communicator.h>
#include <strata/detail/unique_fd.h>

namespace strata::sharding {

struct JoinedRanks {
  int rank = 0;
  int size = 1;
  detail::UniqueFd segment;                   // memfd, empty so far (length 0): the communicator grows it
  std::vector<detail::UniqueFd> peer_pidfds;  // by rank; empty at `rank`
  std::vector<int> peer_pids;                 // by rank, for messages
  detail::UniqueFd door;                      // rank 0's: keeps the job's name taken for as long as it is open
};

// A rank's end of a shared-memory job between processes. Every rank calls it with the same deadlines.
std::unique_ptr<Communicator> make_shm_communicator(JoinedRanks joined, const Deadlines& deadlines);

}  // namespace strata::sharding
