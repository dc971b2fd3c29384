#include "kernels/rmsnorm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rmsnorm.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>
#include <strata/dtype.h>

#include <algorithm>
#include <cmath>

#include "kernels/any_pass.h"
#include "kernels/simd-inl.h"
#include "parallel.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

template <class A>
void forward_rows(const NormForward<A>& pass, std::size_t first, std::size_t last) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d), columns = pass.columns;
  for (std::size_t row = first; row < last; ++row) {
    const float* x = pass.x + row * columns;
    float* sum = pass.delta != nullptr ? pass.sum + row * columns : nullptr;
    auto squares = hn::Zero(d);
    for (std::size_t i = 0; i < columns; i += lanes) {
      const std::size_t count = columns - i;
      auto value = load_part(d, x + i, count);
      if (sum != nullptr) {
        value = hn::Add(value, load_part(d, pass.delta + row * columns + i, count));
        store_part(value, d, sum + i, count);
      }
      squares = hn::MulAdd(value, value, squares);
    }
    const float mean = sum_of_lanes(d, squares) / static_cast<float>(columns);
    const float reciprocal = 1.0f / std::sqrt(mean + pass.eps);
    pass.reciprocal_rms[row] = reciprocal;
    const auto scale = hn::Set(d, reciprocal);
    const float* normalised = sum != nullptr ? sum : x;
    for (std::size_t i = 0; i < columns; i += lanes) {
      const std::size_t count = columns - i;
      const auto scaled = hn::Mul(load_part(d, normalised + i, count), scale);
      store_part(hn::Mul(scaled, load_part(d, pass.weight + i, count)), d, pass.h + row * columns + i, count);
    }
  }
}

// With n = x * r: dx = r * (dh w - n * mean(dh w n)), dw = sum over rows of dh n.
template <class A>
void backward_rows(const NormBackward<A>& pass, std::size_t first, std::size_t last) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d), columns = pass.columns;
  float* partial = pass.partials + first / rows_per_range * columns;
  std::fill(partial, partial + columns, 0.0f);
  for (std::size_t row = first; row < last; ++row) {
    const float* x = pass.x + row * columns;
    const float* dh = pass.dh + row * columns;
    const auto reciprocal = hn::Set(d, pass.reciprocal_rms[row]);
    auto dots = hn::Zero(d);
    for (std::size_t i = 0; i < columns; i += lanes) {
      const std::size_t count = columns - i;
      const auto gradient = load_part(d, dh + i, count);
      const auto product = hn::Mul(gradient, hn::Mul(load_part(d, x + i, count), reciprocal));  // dh n
      store_part(hn::Add(load_part(d, partial + i, count), product), d, partial + i, count);
      dots = hn::MulAdd(product, load_part(d, pass.weight + i, count), dots);
    }
    const auto mean = hn::Set(d, sum_of_lanes(d, dots) / static_cast<float>(columns));
    float* dx = pass.dx + row * columns;
    for (std::size_t i = 0; i < columns; i += lanes) {
      const std::size_t count = columns - i;
      const auto n = hn::Mul(load_part(d, x + i, count), reciprocal);
      const auto weighted = hn::Mul(load_part(d, dh + i, count), load_part(d, pass.weight + i, count));
      auto value = hn::Mul(reciprocal, hn::NegMulAdd(n, mean, weighted));
      if (pass.accumulate) value = hn::Add(load_part(d, dx + i, count), value);
      store_part(value, d, dx + i, count);
      if (static_cast<const void*>(pass.dx_copy) != pass.dx) {
        store_part(value, d, pass.dx_copy + row * columns + i, count);
      }
    }
  }
}

void forward(const AnyPass<NormForward>& pass, std::size_t first, std::size_t last) {
  pass.f32 ? forward_rows(*pass.f32, first, last) : forward_rows(*pass.bf16, first, last);
}
void backward(const AnyPass<NormBackward>& pass, std::size_t first, std::size_t last) {
  pass.f32 ? backward_rows(*pass.f32, first, last) : backward_rows(*pass.bf16, first, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

std::size_t norm_partial_count(std::size_t rows) { return (rows + rows_per_range - 1) / rows_per_range; }

template <class A>
void norm_forward(const NormForward<A>& pass) {
  run_rows(pass, HWY_DYNAMIC_DISPATCH(forward));
}

template <class A>
void norm_backward(const NormBackward<A>& pass) {
  run_rows(pass, HWY_DYNAMIC_DISPATCH(backward));
  std::fill(pass.dweight, pass.dweight + pass.columns, 0.0f);
  for (std::size_t part = 0; part < norm_partial_count(pass.rows); ++part) {
    const float* partial = pass.partials + part * pass.columns;
    for (std::size_t i = 0; i < pass.columns; ++i) pass.dweight[i] += partial[i];
  }
}

template void norm_forward(const NormForward<float>&);
template void norm_forward(const NormForward<strata::bf16>&);
template void norm_backward(const NormBackward<float>&);
template void norm_backward(const NormBackward<strata::bf16>&);

}  // namespace llm
#endif
