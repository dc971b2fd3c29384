// One pass over a piece: gradient in, master and moments updated in place, the published copy out. Body and tail run
// the same operations, each exactly rounded, so where a piece begins and ends changes no bit. Included once per SIMD
// target.
#if defined(STRATA_OPTIM_ONE_PASS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_OPTIM_ONE_PASS_INL_H_
#undef STRATA_OPTIM_ONE_PASS_INL_H_
#else
#define STRATA_OPTIM_ONE_PASS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

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

// How far the arrays are fetched ahead: with four streams in and three out the processor's own prefetch is late.
inline constexpr std::size_t fetch_ahead_count = 256;
inline constexpr std::size_t line_bytes = 64;

HWY_INLINE void fetch(const void* array, std::size_t first_byte, std::size_t byte_count) {
  const auto* const bytes = static_cast<const std::uint8_t*>(array) + first_byte;
  for (std::size_t byte = 0; byte < byte_count; byte += line_bytes) hwy::Prefetch(bytes + byte);
}

template <Dtype gradient_dtype, class Rule>
HWY_INLINE void fetch_arrays(const UpdatePiece& piece, std::size_t first, std::size_t count) {
  constexpr std::size_t gradient_bytes = bytes_per_element(gradient_dtype);
  fetch(piece.gradient, first * gradient_bytes, count * gradient_bytes);
  fetch(piece.master, first * sizeof(float), count * sizeof(float));
  fetch(piece.moments[0], first * sizeof(float), count * sizeof(float));
  if constexpr (Rule::moment_count == 2) fetch(piece.moments[1], first * sizeof(float), count * sizeof(float));
}

// Updates the elements from `first` on that the tag has lanes for, and returns their masters.
template <Dtype gradient_dtype, class Rule, class D>
HWY_INLINE hn::Vec<D> update_lanes(D d, const Rule& rule, const UpdatePiece& piece, std::size_t first) {
  using V = hn::Vec<D>;
  float* const master_at = piece.master + first;
  float* const moment_at = piece.moments[0] + first;
  const V gradient = hn::Mul(load_gradient<gradient_dtype>(d, piece.gradient, first), hn::Set(d, rule.gradient_scale));
  V master = hn::LoadU(d, master_at);
  V moment = hn::LoadU(d, moment_at);
  if constexpr (Rule::moment_count == 2) {
    float* const second_at = piece.moments[1] + first;
    V second = hn::LoadU(d, second_at);
    rule.apply(d, gradient, master, moment, second);
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(master)))) second = one_nan(d, second);
    hn::StoreU(second, d, second_at);
  } else {
    static_assert(Rule::moment_count == 1);
    rule.apply(d, gradient, master, moment);
  }
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(master)))) {
    moment = one_nan(d, moment);
    master = one_nan(d, master);
  }
  hn::StoreU(moment, d, moment_at);
  hn::StoreU(master, d, master_at);
  return master;
}

template <Dtype gradient_dtype, Dtype published_dtype, class Rule>
HWY_INLINE std::size_t update_single(const Rule& rule, const UpdatePiece& piece, std::size_t first) {
  const hn::CappedTag<float, 1> single;
  const auto master = update_lanes<gradient_dtype>(single, rule, piece, first);
  store_published<published_dtype>(single, master, piece.published, first);
  return overflow_count<published_dtype>(single, master);
}

// As many elements as fill a vector of the published dtype. That is stored past the caches: nobody reads it soon, and a
// store into the caches would first read what it overwrites. REQUIRES that its address is aligned to a vector.
template <Dtype gradient_dtype, Dtype published_dtype, class Rule>
HWY_INLINE std::size_t update_block(const Rule& rule, const UpdatePiece& piece, std::size_t first) {
  const hn::ScalableTag<float> d;
  const auto low = update_lanes<gradient_dtype>(d, rule, piece, first);
  if constexpr (published_dtype == Dtype::f32) {
    hn::Stream(low, d, static_cast<float*>(piece.published) + first);
    return 0;
  } else {
    const auto high = update_lanes<gradient_dtype>(d, rule, piece, first + hn::Lanes(d));
#if HWY_TARGET == HWY_SCALAR  // has no vectors to put together
    store_published<published_dtype>(d, low, piece.published, first);
    store_published<published_dtype>(d, high, piece.published, first + 1);
#else
    const hn::Repartition<std::uint16_t, decltype(d)> halves;
    const auto both =
        hn::Combine(halves, round_to_half<published_dtype>(d, high), round_to_half<published_dtype>(d, low));
    hn::Stream(both, halves, static_cast<std::uint16_t*>(piece.published) + first);
#endif
    return overflow_count<published_dtype>(d, low) + overflow_count<published_dtype>(d, high);
  }
}

// How many elements lie before the first whose published address is aligned to a vector.
inline std::size_t unaligned_count(const UpdatePiece& piece, std::size_t vector_bytes) {
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(piece.published) % vector_bytes;
  if (beyond == 0) return 0;
  return std::min(piece.count, (vector_bytes - beyond) / bytes_per_element(piece.published_dtype));
}

// By value: pointers and constants that no store can alias stay in registers.
template <Dtype gradient_dtype, Dtype published_dtype, class Rule>
UpdateOutcome one_pass_typed(const Rule rule, const UpdatePiece piece) {
  const std::size_t vector_bytes = hn::Lanes(hn::ScalableTag<float>()) * sizeof(float);
  const std::size_t block_count = vector_bytes / bytes_per_element(published_dtype);
  const std::size_t head_count = unaligned_count(piece, vector_bytes);
  std::size_t overflows = 0;
  std::size_t i = 0;
  for (; i < head_count; ++i) overflows += update_single<gradient_dtype, published_dtype>(rule, piece, i);
  for (; i + block_count <= piece.count; i += block_count) {
    fetch_arrays<gradient_dtype, Rule>(piece, i + fetch_ahead_count, block_count);
    overflows += update_block<gradient_dtype, published_dtype>(rule, piece, i);
  }
  for (; i < piece.count; ++i) overflows += update_single<gradient_dtype, published_dtype>(rule, piece, i);
  hwy::FlushStream();
  return {.published_overflow_count = overflows};
}

template <Dtype gradient_dtype, class Rule>
UpdateOutcome one_pass_from(const Rule& rule, const UpdatePiece& piece) {
  switch (piece.published_dtype) {
    case Dtype::f32: return one_pass_typed<gradient_dtype, Dtype::f32>(rule, piece);
    case Dtype::bf16: return one_pass_typed<gradient_dtype, Dtype::bf16>(rule, piece);
    default: return one_pass_typed<gradient_dtype, Dtype::f16>(rule, piece);
  }
}

// A Rule has `gradient_scale`, `moment_count` (1 or 2) and `apply(d, scaled gradient, master&, moment&...)`, after
// which the master is NaN wherever a moment is: so one look for NaN serves all.
template <class Rule>
UpdateOutcome one_pass(const Rule& rule, const UpdatePiece& piece) {
  if (piece.gradient_dtype == Dtype::f32) return one_pass_from<Dtype::f32>(rule, piece);
  return one_pass_from<Dtype::bf16>(rule, piece);
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
