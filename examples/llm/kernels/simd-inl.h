// Activations as f32 lanes, whatever they are kept as. Included once for each SIMD target.
#if defined(STRATA_LLM_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_LLM_SIMD_INL_H_
#undef STRATA_LLM_SIMD_INL_H_
#else
#define STRATA_LLM_SIMD_INL_H_
#endif

#include <hwy/highway.h>
#include <strata/dtype.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<float>;
using Vector = hn::Vec<Lanes>;

inline Vector load(Lanes d, const float* at) { return hn::LoadU(d, at); }

inline Vector load(Lanes d, const strata::bf16* at) {
  const hn::Rebind<std::uint16_t, Lanes> d16;
  const hn::RebindToUnsigned<Lanes> d32;
  const auto half = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(at));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, half)));
}

inline Vector load(Lanes d, const strata::f16* at) {
  const hn::Rebind<hwy::float16_t, Lanes> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(at)));
}

inline void store(Vector value, Lanes d, float* at) { hn::StoreU(value, d, at); }

// To the nearest, ties away from zero. Infinities and the NaNs that arithmetic makes stay what they are.
inline void store(Vector value, Lanes, strata::bf16* at) {
  const hn::Rebind<std::uint16_t, Lanes> d16;
  const hn::RebindToUnsigned<Lanes> d32;
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::BitCast(d32, value), hn::Set(d32, 0x8000u)));
  hn::StoreU(hn::TruncateTo(d16, rounded), d16, reinterpret_cast<std::uint16_t*>(at));
}

// The first `count` lanes; the others are 0, and nothing behind them is touched.
template <class T>
Vector load_part(Lanes d, const T* at, std::size_t count) {
  if (count >= hn::Lanes(d)) return load(d, at);
  HWY_ALIGN T buffer[hn::MaxLanes(Lanes())] = {};
  std::memcpy(buffer, at, count * sizeof(T));
  return load(d, buffer);
}

template <class T>
void store_part(Vector value, Lanes d, T* at, std::size_t count) {
  if (count >= hn::Lanes(d)) return store(value, d, at);
  HWY_ALIGN T buffer[hn::MaxLanes(Lanes())];
  store(value, d, buffer);
  std::memcpy(at, buffer, count * sizeof(T));
}

inline float sum_of_lanes(Lanes d, Vector value) { return hn::GetLane(hn::SumOfLanes(d, value)); }
inline float max_of_lanes(Lanes d, Vector value) { return hn::GetLane(hn::MaxOfLanes(d, value)); }

// e^x for x <= 88; 0 below -87, not finite above or for a NaN. Cody-Waite reduction to |r| <= ln2 / 2, then r^6 with
// the seventh Taylor term spread over the lower ones (Chebyshev): within 2 ulp. Only n is clamped: what is not finite
// must come out as such, or a bad gradient would go unseen.
inline Vector exponential(Lanes d, Vector x) {
  const hn::RebindToSigned<Lanes> di;
  const auto magic = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const auto shifted = hn::MulAdd(hn::Min(x, hn::Set(d, 88.0f)), hn::Set(d, 1.44269504f), magic);
  const auto n = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  auto p = hn::Set(d, 1.0f / 720.0f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00837503991f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.166664162f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), hn::Mul(p, scale));
}

// 1 / x for ordinary x, within 2 ulp: Newton's steps are a third of a division's time.
inline Vector reciprocal(Lanes d, Vector x) {
  const auto two = hn::Set(d, 2.0f);
  auto r = hn::ApproximateReciprocal(x);  // 14 bits with AVX-512, 12 below
  if (HWY_MAX_BYTES < 64) r = hn::Mul(r, hn::NegMulAdd(x, r, two));
  return hn::Mul(r, hn::NegMulAdd(x, r, two));
}

// 1 / (1 + e^-x); the sum is kept finite, as Newton's step makes a NaN of an infinity.
inline Vector sigmoid(Lanes d, Vector x) {
  return reciprocal(d, hn::Min(hn::Add(hn::Set(d, 1.0f), exponential(d, hn::Neg(x))), hn::Set(d, 1e37f)));
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();
#endif
