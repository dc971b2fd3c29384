// Weigh, sum in rank order, accumulate, leaf norms, finite: one pass over a shard. The same bits on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include <strata/communicator.h>

namespace strata::sharding {

// A rank's slice of what is summed. Sources of weight 0 are not listed: they are never read.
struct ReduceSource {
  const void* elements = nullptr;
  float weight = 1.0f;
  int rank = 0;
};

struct ReduceJob {
  std::span<const ReduceSource> sources;  // in rank order
  Dtype dtype = Dtype::f32;               // of the sources: f32, bf16 or f16
  Dtype reduce_dtype = Dtype::f32;
  std::size_t count = 0;
  float* accumulator = nullptr;  // `count` elements; overlaps no source, or is exactly one of them
  ReduceMode mode = ReduceMode::store;
  double* leaf_norms = nullptr;  // null, or one for each begun leaf
};

// t_r = f32(w_r) * f32(g_r), rounded to reduce_dtype where that is narrower; s = (t_0 + t_1) + ...; accumulator = s or
// accumulator + s. Without sources s is 0 when stored, and nothing is added. No fused multiply-add. In a leaf, the
// square of element i goes to f64 lane i mod 8, ascending, and the lanes are added pairwise.
ReduceOutcome reduce_slices(const ReduceJob& job);

namespace detail_cpu {

inline constexpr std::size_t no_leaf = std::numeric_limits<std::size_t>::max();

// What the kernel tells of the first leaf whose sum of squares is not finite.
struct FirstBadLeaf {
  std::size_t leaf = no_leaf;
  float own[norm_leaf_count] = {};  // before the pass, of the source that is also the accumulator
};

// The whole leaves of the job, by SIMD.
void reduce_whole_leaves(const ReduceJob& job, FirstBadLeaf& bad);

}  // namespace detail_cpu

}  // namespace strata::sharding
