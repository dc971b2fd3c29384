// One pass over a piece: gradient in, master and moments updated in place, the published copy out. Body and tail run
// the same operations, each exactly rounded, so where a piece begins and ends changes no bit. Included once per SIMD
// target.
#if defined(STRATA_OPTIM_ONE_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_OPTIM_ONE_PASS_INL_H_
#undef STRATA_OPTIM_ONE_PASS_INL_H_
#else
#define STRATA_OPTIM_ONE_PASS_INL_H_
#endif

#include <hwy/highway.h>

#include <strata/detail/assert.h>
#include <strata/optimizer.h>

#include "optim/cast_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

template <Dtype dtype, class D>
HWY_INLINE hn::Vec<D> load_gradient(D d, const void* gradient, std::size_t first) {
  if constexpr (dtype == Dtype::f32) {
    return hn::LoadU(d, static_cast<const float*>(gradient) + first);
  } else {
    return load_bf16(d, static_cast<const std::uint16_t*>(gradient) + first);
  }
}

template <Dtype gradient_dtype, Dtype published_dtype, class Rule, class D>
HWY_INLINE std::size_t update_lanes(D d, const Rule& rule, const UpdatePiece& piece, std::size_t first) {
  using V = hn::Vec<D>;
  float* const master_at = piece.master + first;
  const V gradient = hn::Mul(load_gradient<gradient_dtype>(d, piece.gradient, first), hn::Set(d, rule.gradient_scale));
  V master = hn::LoadU(d, master_at);
  if constexpr (Rule::moment_count == 2) {
    float* const first_at = piece.moments[0] + first;
    float* const second_at = piece.moments[1] + first;
    V first_moment = hn::LoadU(d, first_at);
    V second_moment = hn::LoadU(d, second_at);
    rule.apply(d, gradient, master, first_moment, second_moment);
    hn::StoreU(one_nan(d, first_moment), d, first_at);
    hn::StoreU(one_nan(d, second_moment), d, second_at);
  } else {
    static_assert(Rule::moment_count == 1);
    float* const moment_at = piece.moments[0] + first;
    V moment = hn::LoadU(d, moment_at);
    rule.apply(d, gradient, master, moment);
    hn::StoreU(one_nan(d, moment), d, moment_at);
  }
  master = one_nan(d, master);
  hn::StoreU(master, d, master_at);
  return store_published<published_dtype>(d, master, piece.published, first);
}

// By value: pointers and constants that no store can alias stay in registers.
template <Dtype gradient_dtype, Dtype published_dtype, class Rule>
UpdateOutcome one_pass_typed(const Rule rule, const UpdatePiece piece) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> single;
  std::size_t overflow_count = 0;
  std::size_t i = 0;
  for (; i + hn::Lanes(whole) <= piece.count; i += hn::Lanes(whole)) {
    overflow_count += update_lanes<gradient_dtype, published_dtype>(whole, rule, piece, i);
  }
  for (; i < piece.count; ++i) {
    overflow_count += update_lanes<gradient_dtype, published_dtype>(single, rule, piece, i);
  }
  return {.published_overflow_count = overflow_count};
}

template <Dtype gradient_dtype, class Rule>
UpdateOutcome one_pass_from(const Rule& rule, const UpdatePiece& piece) {
  switch (piece.published_dtype) {
    case Dtype::f32:
      return one_pass_typed<gradient_dtype, Dtype::f32>(rule, piece);
    case Dtype::bf16:
      return one_pass_typed<gradient_dtype, Dtype::bf16>(rule, piece);
    default:
      return one_pass_typed<gradient_dtype, Dtype::f16>(rule, piece);
  }
}

// A Rule has `gradient_scale`, `moment_count` (1 or 2) and `apply(d, scaled gradient, master&, moment&...)`.
template <class Rule>
UpdateOutcome one_pass(const Rule& rule, const UpdatePiece& piece) {
  if (piece.gradient_dtype == Dtype::f32) return one_pass_from<Dtype::f32>(rule, piece);
  return one_pass_from<Dtype::bf16>(rule, piece);
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
