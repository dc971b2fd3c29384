#include "sharding/reduce_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include <strata/detail/cast.h>
#include <strata/detail/default_mxcsr.h>

namespace strata::sharding {

namespace {

float load(const void* elements, Dtype dtype, std::size_t i) {
  if (dtype == Dtype::bf16) return detail::to_f32(static_cast<const bf16*>(elements)[i]);
  if (dtype == Dtype::f16) return detail::to_f32(static_cast<const f16*>(elements)[i]);
  return static_cast<const float*>(elements)[i];
}

float round_to(float value, Dtype dtype) {
  if (dtype == Dtype::bf16) return detail::to_f32(detail::to_bf16(value));
  if (dtype == Dtype::f16) return detail::to_f32(detail::to_f16(value));
  return value;
}

float reduce_element(const ReduceJob& job, std::size_t i) {
  const bool adds = job.mode == ReduceMode::add;
  if (job.sources.empty()) return adds ? job.accumulator[i] : 0.0f;
  float sum = 0;
  for (std::size_t k = 0; k < job.sources.size(); ++k) {
    const ReduceSource& source = job.sources[k];
    const float term = round_to(source.weight * load(source.elements, job.dtype, i), job.reduce_dtype);
    sum = k == 0 ? term : sum + term;
  }
  return adds ? job.accumulator[i] + sum : sum;
}

// The begun leaf at the end, element by element. Not inlined: its arithmetic must not move over the change of MXCSR.
__attribute__((noinline)) void reduce_tail(const ReduceJob& job, detail_cpu::FirstBadLeaf& bad) {
  const std::size_t begin = job.count / norm_leaf_count * norm_leaf_count;
  if (begin == job.count) return;
  std::array<double, 8> lanes{};
  std::array<float, norm_leaf_count> own{};
  for (std::size_t i = begin; i < job.count; ++i) {
    own[i - begin] = job.accumulator[i];
    const float value = reduce_element(job, i);
    job.accumulator[i] = value;
    lanes[i % 8] += double{value} * double{value};
  }
  const double norm = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  const std::size_t leaf = begin / norm_leaf_count;
  if (job.leaf_norms != nullptr) job.leaf_norms[leaf] = norm;
  if (!std::isfinite(norm) && bad.leaf == detail_cpu::no_leaf) {
    bad.leaf = leaf;
    std::copy(own.begin(), own.end(), bad.own);
  }
}

// The first non-finite element of the leaf, and who brought it.
ReduceOutcome find_culprit(const ReduceJob& job, const detail_cpu::FirstBadLeaf& bad) {
  ReduceOutcome outcome{.finite = false};
  const std::size_t begin = bad.leaf * norm_leaf_count;
  std::size_t i = begin;
  while (std::isfinite(job.accumulator[i])) ++i;
  outcome.nonfinite_element = i;
  for (const ReduceSource& source : job.sources) {
    const bool overwritten = source.elements == job.accumulator;
    const float value = overwritten ? bad.own[i - begin] : load(source.elements, job.dtype, i);
    if (std::isfinite(value)) continue;
    outcome.nonfinite_rank = source.rank;
    break;
  }
  return outcome;
}

}  // namespace

ReduceOutcome reduce_slices(const ReduceJob& job) {
  const detail::DefaultMxcsr default_mxcsr;
  detail_cpu::FirstBadLeaf bad;
  detail_cpu::reduce_whole_leaves(job, bad);
  reduce_tail(job, bad);
  return bad.leaf == detail_cpu::no_leaf ? ReduceOutcome{} : find_culprit(job, bad);
}

}  // namespace strata::sharding
