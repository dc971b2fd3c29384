#include "kernels/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>
#include <strata/dtype.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/any_pass.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

inline float row_maximum(const float* row, std::size_t count) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  float most = -std::numeric_limits<float>::infinity();
  std::size_t i = 0;
  if (count >= lanes) {
    auto largest = hn::LoadU(d, row);
    for (i = lanes; i + lanes <= count; i += lanes) largest = hn::Max(largest, hn::LoadU(d, row + i));
    most = max_of_lanes(d, largest);
  }
  for (; i < count; ++i) most = std::max(most, row[i]);
  return most;
}

// Leaves e^(x - most) in the row and returns the sum.
inline float exponentials(float* row, std::size_t count, float most) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += lanes) {
    const std::size_t part = std::min(lanes, count - i);
    auto value = exponential(d, hn::Sub(load_part(d, row + i, part), hn::Set(d, most)));
    value = hn::IfThenElseZero(hn::FirstN(d, part), value);
    sum = hn::Add(sum, value);
    store_part(value, d, row + i, part);
  }
  return sum_of_lanes(d, sum);
}

template <class A>
void rows_of(const CrossEntropy<A>& pass, std::size_t first, std::size_t last) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d), vocab = pass.vocab;
  for (std::size_t row = first; row < last; ++row) {
    const std::int32_t target = pass.targets[row];
    float* logits = pass.logits + row * vocab;
    A* gradients = pass.dlogits != nullptr ? pass.dlogits + row * vocab : nullptr;
    pass.losses[row] = 0;
    if (target == ignored_target) {
      if (gradients != nullptr) std::fill(gradients, gradients + vocab, A{});
      continue;
    }
    const double at_target = logits[target];
    const float most = row_maximum(logits, vocab);
    const float sum = exponentials(logits, vocab, most);
    pass.losses[row] = std::log(static_cast<double>(sum)) + most - at_target;
    if (gradients == nullptr) continue;
    logits[target] -= sum;  // (softmax - 1) where the target is
    const auto scale = hn::Set(d, pass.scale / sum);
    for (std::size_t i = 0; i < vocab; i += lanes) {
      store_part(hn::Mul(load_part(d, logits + i, vocab - i), scale), d, gradients + i, vocab - i);
    }
  }
}

void forward_backward(const AnyPass<CrossEntropy>& pass, std::size_t first, std::size_t last) {
  pass.f32 ? rows_of(*pass.f32, first, last) : rows_of(*pass.bf16, first, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(forward_backward);

template <class A>
void cross_entropy(const CrossEntropy<A>& pass) {
  run_rows(pass, HWY_DYNAMIC_DISPATCH(forward_backward));
}

template void cross_entropy(const CrossEntropy<float>&);
template void cross_entropy(const CrossEntropy<strata::bf16>&);

}  // namespace llm
#endif
