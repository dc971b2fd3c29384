#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>
#include <strata/dtype.h>

#include "kernels/simd-inl.h"
#include "parallel.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

template <class A>
void forward_rows(const SwiGlu<A>& pass, std::size_t first, std::size_t last) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d), columns = pass.columns;
  for (std::size_t row = first; row < last; ++row) {
    const A* gate = pass.gate_up + row * 2 * columns;
    const A* up = gate + columns;
    A* act = pass.act + row * columns;
    for (std::size_t i = 0; i < columns; i += lanes) {
      const std::size_t count = columns - i;
      const auto g = load_part(d, gate + i, count);
      store_part(hn::Mul(hn::Mul(g, sigmoid(d, g)), load_part(d, up + i, count)), d, act + i, count);
    }
  }
}

template <class A>
void backward_rows(const SwiGlu<A>& pass, std::size_t first, std::size_t last) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d), columns = pass.columns;
  const auto one = hn::Set(d, 1.0f);
  for (std::size_t row = first; row < last; ++row) {
    A* gate = pass.gate_up + row * 2 * columns;
    A* up = gate + columns;
    const A* dact = pass.dact + row * columns;
    A* act = pass.act + row * columns;
    for (std::size_t i = 0; i < columns; i += lanes) {
      const std::size_t count = columns - i;
      const auto g = load_part(d, gate + i, count);
      const auto u = load_part(d, up + i, count);
      const auto da = load_part(d, dact + i, count);
      const auto s = sigmoid(d, g);
      const auto silu = hn::Mul(g, s);
      const auto slope = hn::Mul(s, hn::MulAdd(g, hn::Sub(one, s), one));  // s (1 + g (1 - s))
      store_part(hn::Mul(silu, u), d, act + i, count);
      store_part(hn::Mul(da, hn::Mul(u, slope)), d, gate + i, count);
      store_part(hn::Mul(da, silu), d, up + i, count);
    }
  }
}

void forward_rows_f32(const SwiGlu<float>& pass, std::size_t first, std::size_t last) {
  forward_rows(pass, first, last);
}
void forward_rows_bf16(const SwiGlu<strata::bf16>& pass, std::size_t first, std::size_t last) {
  forward_rows(pass, first, last);
}
void backward_rows_f32(const SwiGlu<float>& pass, std::size_t first, std::size_t last) {
  backward_rows(pass, first, last);
}
void backward_rows_bf16(const SwiGlu<strata::bf16>& pass, std::size_t first, std::size_t last) {
  backward_rows(pass, first, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(forward_rows_f32);
HWY_EXPORT(forward_rows_bf16);
HWY_EXPORT(backward_rows_f32);
HWY_EXPORT(backward_rows_bf16);

namespace {

template <class Pass, class Rows>
void run(const Pass& pass, const Rows& rows) {
  parallel_rows(pass.rows, [&](std::size_t first, std::size_t last) { rows(pass, first, last); });
}

}  // namespace

template <>
void swiglu_forward(const SwiGlu<float>& pass) {
  run(pass, HWY_DYNAMIC_DISPATCH(forward_rows_f32));
}
template <>
void swiglu_forward(const SwiGlu<strata::bf16>& pass) {
  run(pass, HWY_DYNAMIC_DISPATCH(forward_rows_bf16));
}
template <>
void swiglu_backward(const SwiGlu<float>& pass) {
  run(pass, HWY_DYNAMIC_DISPATCH(backward_rows_f32));
}
template <>
void swiglu_backward(const SwiGlu<strata::bf16>& pass) {
  run(pass, HWY_DYNAMIC_DISPATCH(backward_rows_bf16));
}

}  // namespace llm
#endif
