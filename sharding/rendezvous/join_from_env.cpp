#include <cmath>

#include <fmt/format.h>

#include <strata/error.h>
#include <strata/rendezvous.h>

#include "sharding/joined_ranks.h"
#include "sharding/rendezvous/local_rendezvous.h"
#include "sharding/rendezvous/rank_environment.h"

namespace strata {

std::unique_ptr<Communicator> join_from_env(const JoinOptions& options) {
  if (!std::isfinite(options.join_s) || options.join_s <= 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("join_s = {}: a number of seconds above 0 is expected", options.join_s));
  }
  const sharding::RankEnvironment found = sharding::read_rank_environment(sharding::process_environment);
  if (found.size == 1) return solo_world();
  const sharding::JoinRequest request = {
      .rank = found.rank, .size = found.size, .job = found.job, .port = found.port, .join_s = options.join_s};
  return sharding::make_shm_communicator(sharding::join_local_ranks(request), options.deadlines);
}

}  // namespace strata
