// Ranks of one host find each other and share a segment, without a file or a port.
//
// Rank 0 listens on an abstract socket whose name has the user, the job and the port in it; who starts first does not
// matter. Only processes of the same user get a word in; one that says nothing sensible is dropped after five seconds,
// and the others do not wait for it. A process with a wrong world size or a taken rank is refused with the reason, and
// the job goes on. When all have come, rank 0 hands out an unnamed segment and all process ids, so that nothing is left
// behind, whoever dies. See join_message.h for the words.
#pragma once

#include "sharding/joined_ranks.h"
#include "sharding/rendezvous/join_message.h"

namespace strata::sharding {

// Returns when all ranks have joined. Throws peer_lost with the missing ranks when they do not come within join_s (on
// all ranks that came), or with the rank that died; mismatch when this process is refused, or too late.
JoinedRanks join_local_ranks(const JoinRequest& request);

// The two sides of it. REQUIRES: host rank 0, guest any other.
JoinedRanks join_as_host(const JoinRequest& request);
JoinedRanks join_as_guest(const JoinRequest& request);

}  // namespace strata::sharding
