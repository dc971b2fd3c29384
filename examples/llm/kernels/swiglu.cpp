#include "kernels/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/swiglu.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>
#include <strata/dtype.h>

#include "kernels/any_pass.h"
#include "kernels/simd-inl.h"

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

void forward(const AnyPass<SwiGlu>& pass, std::size_t first, std::size_t last) {
  pass.f32 ? forward_rows(*pass.f32, first, last) : forward_rows(*pass.bf16, first, last);
}
void backward(const AnyPass<SwiGlu>& pass, std::size_t first, std::size_t last) {
  pass.f32 ? backward_rows(*pass.f32, first, last) : backward_rows(*pass.bf16, first, last);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

template <class A>
void swiglu_forward(const SwiGlu<A>& pass) {
  run_rows(pass, HWY_DYNAMIC_DISPATCH(forward));
}

template <class A>
void swiglu_backward(const SwiGlu<A>& pass) {
  run_rows(pass, HWY_DYNAMIC_DISPATCH(backward));
}

template void swiglu_forward(const SwiGlu<float>&);
template void swiglu_forward(const SwiGlu<strata::bf16>&);
template void swiglu_backward(const SwiGlu<float>&);
template void swiglu_backward(const SwiGlu<strata::bf16>&);

}  // namespace llm
#endif
