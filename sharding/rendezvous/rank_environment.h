// Who this process is, read from what its launcher put into the environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace strata::sharding {

// The value of a variable, or nothing. An empty value counts as unset.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

struct RankEnvironment {
  std::string_view launcher = "none";  // "strata", "torchrun", "Open MPI", "Slurm"
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string job;  // the same on all ranks, another for each job of this host; empty when size is 1
  int port = 0;     // part of the name where the launcher gives one
};

inline constexpr int world_size_max = 4096;

// Asks strata's own variables, torchrun's, Open MPI's and Slurm's, in this order; the first launcher whose rank or size
// is set decides. Without any: one rank. An allocation of Slurm that no step of srun runs in is one rank, too. Throws
// invalid_argument naming variable and value for what is missing, not a number, or contradictory, and unsupported for
// ranks on several hosts.
RankEnvironment read_rank_environment(const EnvironmentLookup& lookup);

// Of this process.
std::optional<std::string> process_environment(std::string_view name);

}  // namespace strata::sharding
