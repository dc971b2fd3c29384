#include "sharding/collective_arguments.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include <strata/error.h>

namespace strata::sharding {

namespace {

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorCode::invalid_argument, text); }

}  // namespace

void check_gather(std::size_t shard_count, Dtype dtype, int size) {
  const std::size_t most = std::numeric_limits<std::size_t>::max() / static_cast<std::size_t>(size);
  if (shard_count > most / bytes_per_element(dtype)) {
    refuse(fmt::format("shards of {} elements for {} ranks exceed the address space", shard_count, size));
  }
}

void check_reduce(std::size_t shard_count, Dtype dtype, const ReduceTarget& target, int size) {
  check_gather(shard_count, dtype, size);
  const auto is_float = [](Dtype d) { return d == Dtype::f32 || d == Dtype::bf16 || d == Dtype::f16; };
  if (!is_float(dtype)) refuse(fmt::format("reduce_scatter of {}; f32, bf16 and f16 can be reduced", to_string(dtype)));
  if (!is_float(target.reduce_dtype)) {
    refuse(fmt::format("reduce_scatter in {}; terms are rounded to f32, bf16 or f16", to_string(target.reduce_dtype)));
  }
  if (target.accumulator.size() != shard_count) {
    refuse(fmt::format("accumulator of {} elements for a shard of {}", target.accumulator.size(), shard_count));
  }
  const std::size_t leaf_count = (shard_count + norm_leaf_count - 1) / norm_leaf_count;
  if (!target.leaf_norms.empty() && target.leaf_norms.size() != leaf_count) {
    refuse(fmt::format("{} leaf norms for a shard of {} leaves", target.leaf_norms.size(), leaf_count));
  }
  if (!(target.weight >= 0) || !std::isfinite(target.weight)) {
    refuse(fmt::format("weight {}; weights are finite and not negative", target.weight));
  }
}

}  // namespace strata::sharding
