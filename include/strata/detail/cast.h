// Conversions between element types by integer arithmetic: the same bits on every machine, whatever the caller's
// rounding mode or flushing of denormals.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

#include <strata/dtype.h>

namespace strata::detail {

inline constexpr std::uint32_t f32_magnitude_bits = 0x7FFFFFFF;
inline constexpr std::uint32_t f32_infinity_bits = 0x7F800000;
inline constexpr std::uint32_t f32_nan_bits = 0x7FC00000;       // the one NaN that masters and moments are stored as
inline constexpr std::uint32_t f16_overflow_bits = 0x477FF000;  // 65520: the least f32 that rounds to infinity as f16
inline constexpr std::uint32_t f16_normal_bits = 0x38800000;    // 2^-14: the least f32 that is a normal f16
inline constexpr std::uint16_t bf16_nan_bits = 0x7FC0;
inline constexpr std::uint16_t f16_nan_bits = 0x7E00;

// Round half up in magnitude: differs from nearest-even on exact ties only, and leaves a remainder of 16 bits from
// which the f32 is recovered. Finite values that round beyond the largest become infinite; every NaN becomes 0x7FC0.
constexpr bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & f32_magnitude_bits) > f32_infinity_bits) return {bf16_nan_bits};
  return {static_cast<std::uint16_t>((bits + 0x8000) >> 16)};
}

constexpr float to_f32(bf16 value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16); }

// Nearest, ties to even, denormals kept; from 65520 on infinite; every NaN becomes 0x7E00.
constexpr f16 to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & f32_magnitude_bits;
  const std::uint32_t sign = bits >> 16 & 0x8000;
  if (magnitude > f32_infinity_bits) return {f16_nan_bits};
  if (magnitude >= f16_overflow_bits) return {static_cast<std::uint16_t>(sign | 0x7C00)};
  if (magnitude >= f16_normal_bits) {
    const std::uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
    return {static_cast<std::uint16_t>(sign | ((rounded - (112u << 23)) >> 13))};
  }
  const std::uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return {static_cast<std::uint16_t>(sign)};  // below 2^-25, half of the least f16
  const std::uint32_t shift = 126 - exponent;                     // 14 to 24
  const std::uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  const std::uint32_t rounded = (mantissa + (1u << (shift - 1)) - 1 + (mantissa >> shift & 1)) >> shift;
  return {static_cast<std::uint16_t>(sign | rounded)};
}

// Exact. The payload of a NaN is kept.
constexpr float to_f32(f16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = value.bits >> 10 & 0x1F;
  const std::uint32_t mantissa = value.bits & 0x3FF;
  if (exponent == 31) return std::bit_cast<float>(sign | f32_infinity_bits | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  const auto lead = static_cast<std::uint32_t>(std::countl_zero(mantissa)) - 21;  // shifts up to the implicit bit
  return std::bit_cast<float>(sign | (113 - lead) << 23 | (mantissa << lead & 0x3FF) << 13);
}

// The same for many elements, with SIMD. REQUIRES target.size() == source.size(); no overlap.
void cast(std::span<const float> source, std::span<bf16> target);
void cast(std::span<const float> source, std::span<f16> target);
void cast(std::span<const bf16> source, std::span<float> target);
void cast(std::span<const f16> source, std::span<float> target);

}  // namespace strata::detail
