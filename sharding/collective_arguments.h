// What every communicator asks of the arguments of a call, before it has any effect. Throw invalid_argument.
#pragma once

#include <cstddef>
#include <string_view>

#include <strata/communicator.h>

namespace strata::sharding {

void check_gather(std::size_t shard_count, Dtype dtype, int size);
void check_reduce(std::size_t shard_count, Dtype dtype, const ReduceTarget& target, int size);

}  // namespace strata::sharding
