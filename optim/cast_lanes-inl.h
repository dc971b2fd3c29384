// Conversions of strata/detail/cast.h on vectors. Included once per SIMD target.
#if defined(STRATA_OPTIM_CAST_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_OPTIM_CAST_LANES_INL_H_
#undef STRATA_OPTIM_CAST_LANES_INL_H_
#else
#define STRATA_OPTIM_CAST_LANES_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include <strata/detail/cast.h>

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Bits = hn::RebindToUnsigned<D>;
template <class D>
using SignedBits = hn::RebindToSigned<D>;
template <class D>
using Halves = hn::Rebind<std::uint16_t, D>;

// `convert(tag, i)` handles the elements from i on that the tag has lanes for.
template <class Convert>
HWY_INLINE void for_all_lanes(std::size_t count, const Convert& convert) {
  const hn::ScalableTag<float> whole;
  const hn::CappedTag<float, 1> single;
  std::size_t i = 0;
  for (; i + hn::Lanes(whole) <= count; i += hn::Lanes(whole)) convert(whole, i);
  for (; i < count; ++i) convert(single, i);
}

template <class D>
HWY_INLINE hn::Vec<D> one_nan(D d, hn::Vec<D> values) {
  const hn::Vec<D> nan = hn::BitCast(d, hn::Set(Bits<D>(), detail::f32_nan_bits));
  return hn::IfThenElse(hn::IsNaN(values), nan, values);
}

// REQUIRES that NaNs have been made one: then the rounding leaves them a NaN.
template <class D>
HWY_INLINE hn::Vec<Halves<D>> round_to_bf16(D /* tag */, hn::Vec<D> values) {
  const Bits<D> bits_tag;
  const auto bits = hn::BitCast(bits_tag, values);
  return hn::TruncateTo(Halves<D>(), hn::ShiftRight<16>(hn::Add(bits, hn::Set(bits_tag, 0x8000u))));
}

template <class D>
HWY_INLINE hn::Vec<D> load_bf16(D d, const std::uint16_t* source) {
  const auto bits = hn::PromoteTo(Bits<D>(), hn::LoadU(Halves<D>(), source));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}

template <class D>
HWY_INLINE hn::Vec<SignedBits<D>> magnitude_bits(D /* tag */, hn::Vec<D> values) {
  return hn::BitCast(SignedBits<D>(), hn::Abs(values));
}

// Denormals: at 0.5 the spacing of f32 is 2^-24, that of denormal f16, so an addition rounds them.
template <class D>
HWY_INLINE hn::Vec<Halves<D>> round_to_f16(D d, hn::Vec<D> values) {
  const Bits<D> u;
  const SignedBits<D> i;
  const auto constant = [&](std::uint32_t bits) HWY_ATTR { return hn::Set(i, static_cast<std::int32_t>(bits)); };
  const auto magnitude = magnitude_bits(d, values);
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(i, 1));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), constant(0xFFFu - (112u << 23))));
  const auto denormal = hn::Sub(hn::BitCast(i, hn::Add(hn::Abs(values), hn::Set(d, 0.5f))), constant(0x3F000000));
  auto rounded = hn::IfThenElse(hn::Lt(magnitude, constant(detail::f16_normal_bits)), denormal, normal);
  rounded = hn::IfThenElse(hn::Lt(magnitude, constant(detail::f16_overflow_bits)), rounded, constant(0x7C00));
  const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(u, values)), hn::Set(u, 0x8000u));
  const auto with_sign = hn::Or(hn::BitCast(u, rounded), sign);
  const auto is_nan = hn::RebindMask(u, hn::Gt(magnitude, constant(detail::f32_infinity_bits)));
  return hn::TruncateTo(Halves<D>(),
                        hn::IfThenElse(is_nan, hn::Set(u, std::uint32_t{detail::f16_nan_bits}), with_sign));
}

// How many finite values become infinite as `dtype`, counted for f16 only.
template <Dtype dtype, class D>
HWY_INLINE std::size_t overflow_count(D d, hn::Vec<D> values) {
  if constexpr (dtype != Dtype::f16) return 0;
  const SignedBits<D> i;
  const auto magnitude = magnitude_bits(d, values);
  const auto fits = hn::Lt(magnitude, hn::Set(i, static_cast<std::int32_t>(detail::f16_overflow_bits)));
  if (HWY_LIKELY(hn::AllTrue(i, fits))) return 0;
  const auto finite = hn::Lt(magnitude, hn::Set(i, static_cast<std::int32_t>(detail::f32_infinity_bits)));
  return hn::CountTrue(i, hn::AndNot(fits, finite));
}

template <Dtype dtype, class D>
HWY_INLINE hn::Vec<Halves<D>> round_to_half(D d, hn::Vec<D> values) {
  if constexpr (dtype == Dtype::bf16) {
    return round_to_bf16(d, values);
  } else {
    return round_to_f16(d, values);
  }
}

// Stores masters, in which NaNs are one, as published elements from `first` on.
template <Dtype dtype, class D>
HWY_INLINE void store_published(D d, hn::Vec<D> masters, void* published, std::size_t first) {
  if constexpr (dtype == Dtype::f32) {
    hn::StoreU(masters, d, static_cast<float*>(published) + first);
  } else {
    hn::StoreU(round_to_half<dtype>(d, masters), Halves<D>(), static_cast<std::uint16_t*>(published) + first);
  }
}

template <class D>
HWY_INLINE hn::Vec<D> load_f16(D d, const std::uint16_t* source) {
  const Bits<D> u;
  const SignedBits<D> i;
  const auto bits = hn::PromoteTo(u, hn::LoadU(Halves<D>(), source));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000u)));
  const auto magnitude = hn::BitCast(i, hn::And(bits, hn::Set(u, 0x7FFFu)));
  const auto special = hn::IfThenElseZero(hn::Gt(magnitude, hn::Set(i, 0x7BFF)), hn::Set(i, 112 << 23));
  const auto normal = hn::Add(hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(i, 112 << 23)), special);
  const auto denormal = hn::BitCast(i, hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f)));
  const auto value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(i, 0x400)), denormal, normal);
  return hn::BitCast(d, hn::Or(hn::BitCast(u, value), sign));
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
