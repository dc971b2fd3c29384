#include "kernels/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/simd-inl.h"
#include "parallel.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

// Highway 1.0.3 truncates in DemoteTo(f16) on targets without F16C, so the rounding is done on the bits.
inline strata::f16 to_f16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<std::uint16_t>(sign | 0x7E00u)};
  if (magnitude >= 0x477FF000u) return {static_cast<std::uint16_t>(sign | 0x7C00u)};  // 65520 and more
  if (magnitude < 0x38800000u) {                                                      // below 2^-14: denormal or 0
    float absolute;
    std::memcpy(&absolute, &magnitude, sizeof(absolute));
    const float shifted = absolute + 0.5f;  // an ulp of 0.5 is 2^-24, as of an f16 denormal
    std::uint32_t rounded;
    std::memcpy(&rounded, &shifted, sizeof(rounded));
    return {static_cast<std::uint16_t>(sign | (rounded - 0x3F000000u))};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return {static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13))};
}

template <class T>
void widen_all(const T* source, float* target, std::size_t count) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count; i += lanes)
    store_part(load_part(d, source + i, count - i), d, target + i, count - i);
}

void widen_range(const void* source, strata::Dtype dtype, float* target, std::size_t count) {
  switch (dtype) {
    case strata::Dtype::bf16: return widen_all(static_cast<const strata::bf16*>(source), target, count);
    case strata::Dtype::f16: return widen_all(static_cast<const strata::f16*>(source), target, count);
    default: return widen_all(static_cast<const float*>(source), target, count);
  }
}

void narrow_range(const float* source, strata::Dtype dtype, void* target, std::size_t count) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  if (dtype == strata::Dtype::bf16) {
    auto* out = static_cast<strata::bf16*>(target);
    for (std::size_t i = 0; i < count; i += lanes)
      store_part(load_part(d, source + i, count - i), d, out + i, count - i);
  } else if (dtype == strata::Dtype::f16) {
    auto* out = static_cast<strata::f16*>(target);
    for (std::size_t i = 0; i < count; ++i) out[i] = to_f16(source[i]);
  } else {
    std::copy(source, source + count, static_cast<float*>(target));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(widen_range);
HWY_EXPORT(narrow_range);

namespace {
constexpr std::size_t elements_per_range = 1 << 16;
}

void widen(const void* source, strata::Dtype dtype, std::span<float> target) {
  const std::size_t width = strata::bytes_per_element(dtype);
  parallel_ranges(target.size(), elements_per_range, [&](std::size_t first, std::size_t last) {
    HWY_DYNAMIC_DISPATCH(widen_range)
    (static_cast<const std::byte*>(source) + first * width, dtype, target.data() + first, last - first);
  });
}

void narrow(std::span<const float> source, strata::Dtype dtype, void* target) {
  const std::size_t width = strata::bytes_per_element(dtype);
  parallel_ranges(source.size(), elements_per_range, [&](std::size_t first, std::size_t last) {
    HWY_DYNAMIC_DISPATCH(narrow_range)
    (source.data() + first, dtype, static_cast<std::byte*>(target) + first * width, last - first);
  });
}

}  // namespace llm
#endif
