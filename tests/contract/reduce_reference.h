// The reduction's definition, element by element, to hold every kernel against.
#pragma once

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include <strata/communicator.h>
#include <strata/detail/cast.h>

namespace strata::test {

inline float rounded(float value, Dtype dtype) {
  if (dtype == Dtype::bf16) return detail::to_f32(detail::to_bf16(value));
  if (dtype == Dtype::f16) return detail::to_f32(detail::to_f16(value));
  return value;
}

inline void write_element(std::byte* elements, Dtype dtype, std::size_t i, float value) {
  const bf16 as_bf16 = detail::to_bf16(value);
  const f16 as_f16 = detail::to_f16(value);
  if (dtype == Dtype::bf16) std::memcpy(elements + 2 * i, &as_bf16, 2);
  if (dtype == Dtype::f16) std::memcpy(elements + 2 * i, &as_f16, 2);
  if (dtype == Dtype::f32) std::memcpy(elements + 4 * i, &value, 4);
}

struct ReferenceTerm {
  float weight;
  std::vector<float> values;  // as they are in the source's dtype
};

struct ReferenceSum {
  std::vector<float> accumulator;
  std::vector<double> leaf_norms;
};

inline ReferenceSum reference_reduce(std::span<const ReferenceTerm> terms, Dtype reduce_dtype, ReduceMode mode,
                                     const std::vector<float>& before) {
  ReferenceSum result{before, std::vector<double>((before.size() + 255) / 256)};
  for (std::size_t i = 0; i < before.size(); ++i) {
    float sum = 0;
    bool first = true;
    for (const ReferenceTerm& term : terms) {
      if (term.weight == 0) continue;
      const float value = rounded(term.weight * term.values[i], reduce_dtype);
      sum = first ? value : sum + value;
      first = false;
    }
    if (mode == ReduceMode::store) result.accumulator[i] = sum;
    if (mode == ReduceMode::add && !first) result.accumulator[i] = before[i] + sum;
  }
  for (std::size_t leaf = 0; leaf < result.leaf_norms.size(); ++leaf) {
    std::array<double, 8> lanes{};
    for (std::size_t i = leaf * 256; i < before.size() && i < (leaf + 1) * 256; ++i) {
      const double value = result.accumulator[i];
      lanes[i % 8] += value * value;
    }
    for (std::size_t width = 4; width > 0; width /= 2) {
      for (std::size_t k = 0; k < width; ++k) lanes[k] = lanes[2 * k] + lanes[2 * k + 1];
    }
    result.leaf_norms[leaf] = lanes[0];
  }
  return result;
}

}  // namespace strata::test
