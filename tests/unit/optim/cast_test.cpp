#include <strata/detail/cast.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "support/each_simd_target.h"
#include "support/golden.h"
#include "support/mxcsr_scope.h"

namespace strata::detail {
namespace {

using test::for_each_simd_target;
using test::Golden;
using test::MxcsrScope;

static_assert(to_bf16(1.0f).bits == 0x3F80);
static_assert(to_f16(1.0f).bits == 0x3C00);
static_assert(to_f32(bf16{0x3F80}) == 1.0f);
static_assert(to_f32(f16{0x0001}) == 0x1p-24f);

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// Each source with the one right result.
template <class Half>
struct Expected {
  std::vector<float> sources;
  std::vector<Half> targets;

  void add(float source, std::uint32_t bits) {
    sources.push_back(source);
    targets.push_back(Half{static_cast<std::uint16_t>(bits)});
  }
};

// Scalar, and in batches on every target and with every mode of the caller's. Equal bits, all of them.
template <class Half, class ToHalf>
void expect_casts(const Expected<Half>& expected, const ToHalf& to_half) {
  for (std::size_t i = 0; i < expected.sources.size(); ++i) {
    ASSERT_EQ(to_half(expected.sources[i]).bits, expected.targets[i].bits) << std::hex << bits_of(expected.sources[i]);
  }
  for_each_simd_target([&] {
    for (const unsigned mode : {test::default_mxcsr, test::flushing_mxcsr, test::rounding_up_mxcsr}) {
      std::vector<Half> got(expected.sources.size());
      {
        const MxcsrScope scope(mode);
        cast(expected.sources, got);
        EXPECT_EQ(test::mxcsr_control(), mode);
      }
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].bits, expected.targets[i].bits)
            << std::hex << bits_of(expected.sources[i]) << " mode " << mode;
      }
    }
  });
}

TEST(Bf16, agrees_with_the_reference) {
  const Golden golden(STRATA_TEST_DATA "/golden_casts/bf16.safetensors");
  Expected<bf16> expected;
  for (std::size_t i = 0; i < golden.f32("f32").size(); ++i) {
    expected.add(golden.f32("f32")[i], golden.bf16s("bf16_half_up")[i].bits);
  }
  expect_casts(expected, [](float value) { return to_bf16(value); });
}

TEST(Bf16, rounds_half_up_beside_every_value) {
  Expected<bf16> expected;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    if ((high & 0x7FFF) >= 0x7F80) continue;
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      expected.add(from_bits(high << 16 | low), high + (low >= 0x8000 ? 1 : 0));
    }
  }
  expect_casts(expected, [](float value) { return to_bf16(value); });
}

TEST(Bf16, keeps_infinities_and_makes_every_nan_one) {
  Expected<bf16> expected;
  expected.add(std::numeric_limits<float>::max(), 0x7F80);
  expected.add(-std::numeric_limits<float>::max(), 0xFF80);
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    expected.add(from_bits(sign | 0x7F800000), sign >> 16 | 0x7F80);
    for (std::uint32_t bit = 0; bit < 23; ++bit) expected.add(from_bits(sign | 0x7F800000 | 1u << bit), 0x7FC0);
    expected.add(from_bits(sign | 0x7FFFFFFF), 0x7FC0);
  }
  expect_casts(expected, [](float value) { return to_bf16(value); });
}

TEST(Bf16, widens_exactly) {
  std::vector<bf16> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) all.push_back({static_cast<std::uint16_t>(bits)});
  for_each_simd_target([&] {
    const MxcsrScope scope(test::flushing_mxcsr);
    std::vector<float> wide(all.size());
    cast(all, wide);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      ASSERT_EQ(bits_of(wide[bits]), bits << 16);
      ASSERT_EQ(bits_of(to_f32(all[bits])), bits << 16);
    }
  });
}

TEST(F16, agrees_with_the_reference) {
  const Golden golden(STRATA_TEST_DATA "/golden_casts/f16.safetensors");
  Expected<f16> expected;
  for (std::size_t i = 0; i < golden.f32("f32").size(); ++i) {
    const float value = golden.f32("f32")[i];
    expected.add(value, std::isnan(value) ? f16_nan_bits : golden.f16s("f16")[i].bits);
  }
  expect_casts(expected, [](float value) { return to_f16(value); });
}

double f16_value(std::uint32_t magnitude_bits) {  // by the definition; 0x7C00 as the value that would come next
  const int exponent = static_cast<int>(magnitude_bits >> 10);
  const int mantissa = static_cast<int>(magnitude_bits & 0x3FF);
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, rounds_to_nearest_even_beside_every_value) {
  Expected<f16> expected;
  for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const auto below = static_cast<float>(f16_value(bits));
    const auto tie = static_cast<float>((f16_value(bits) + f16_value(bits + 1)) / 2);
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const float factor = sign != 0 ? -1.0f : 1.0f;
      expected.add(factor * below, sign | bits);
      expected.add(factor * std::nextafter(below, 1e9f), sign | bits);
      expected.add(factor * std::nextafter(tie, 0.0f), sign | bits);
      expected.add(factor * tie, sign | (bits + (bits & 1)));
      expected.add(factor * std::nextafter(tie, 1e9f), sign | (bits + 1));
    }
  }
  expect_casts(expected, [](float value) { return to_f16(value); });
}

TEST(F16, overflows_to_infinity_and_makes_every_nan_one) {
  Expected<f16> expected;
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    for (const float value : {65520.0f, 65536.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
      expected.add(from_bits(sign | bits_of(value)), sign >> 16 | 0x7C00);
    }
    for (std::uint32_t bit = 0; bit < 23; ++bit) expected.add(from_bits(sign | 0x7F800000 | 1u << bit), 0x7E00);
  }
  expect_casts(expected, [](float value) { return to_f16(value); });
}

TEST(F16, widens_exactly) {
  std::vector<f16> all;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) all.push_back({static_cast<std::uint16_t>(bits)});
  for_each_simd_target([&] {
    const MxcsrScope scope(test::flushing_mxcsr);
    std::vector<float> wide(all.size());
    cast(all, wide);
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      ASSERT_EQ(bits_of(wide[bits]), bits_of(to_f32(all[bits]))) << std::hex << bits;
      const std::uint32_t magnitude = bits & 0x7FFF;
      if (magnitude > 0x7C00) {
        ASSERT_TRUE(std::isnan(wide[bits])) << std::hex << bits;
      } else {
        const double value = magnitude == 0x7C00 ? std::numeric_limits<double>::infinity() : f16_value(magnitude);
        ASSERT_EQ(wide[bits], bits > 0x7FFF ? -value : value) << std::hex << bits;
        ASSERT_EQ(std::signbit(wide[bits]), bits > 0x7FFF);
      }
    }
  });
}

TEST(Cast, writes_what_it_is_given_and_no_more) {
  for_each_simd_target([] {
    for (std::size_t first = 0; first < 3; ++first) {
      for (std::size_t count = 0; count < 70; ++count) {
        const std::vector<float> source(first + count, 1.5f);
        std::vector<bf16> target(first + count + 1, bf16{0x1234});
        cast(std::span(source).subspan(first), std::span(target).subspan(first, count));
        for (std::size_t i = 0; i < target.size(); ++i) {
          ASSERT_EQ(target[i].bits, i >= first && i < first + count ? 0x3FC0 : 0x1234);
        }
      }
    }
  });
}

}  // namespace
}  // namespace strata::detail
