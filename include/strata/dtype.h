// Element types of parameters, gradients and what travels between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata {

// The upper half of an f32. Converted by strata/detail/cast.h; no arithmetic of its own.
struct bf16 {
  std::uint16_t bits;
};

// IEEE 754 binary16. Converted by strata/detail/cast.h; no arithmetic of its own.
struct f16 {
  std::uint16_t bits;
};

enum class Dtype : std::uint8_t { f32, bf16, f16, f64, u64, u8 };

constexpr std::size_t bytes_per_element(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return 4;
    case Dtype::bf16:
    case Dtype::f16: return 2;
    case Dtype::f64:
    case Dtype::u64: return 8;
    case Dtype::u8: return 1;
  }
  return 0;
}

constexpr std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32: return "f32";
    case Dtype::bf16: return "bf16";
    case Dtype::f16: return "f16";
    case Dtype::f64: return "f64";
    case Dtype::u64: return "u64";
    case Dtype::u8: return "u8";
  }
  return "?";
}

}  // namespace strata
