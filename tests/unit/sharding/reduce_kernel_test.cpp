#include "sharding/reduce_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "contract/reduce_reference.h"
#include "support/each_simd_target.h"
#include "support/mxcsr_scope.h"

namespace strata::sharding {
namespace {

struct Case {
  Dtype dtype;
  Dtype reduce_dtype;
  ReduceMode mode;
  std::size_t source_count;
  std::size_t count;
};

// Floats of all magnitudes that no sum overflows, denormals among them.
float wild_float(std::mt19937_64& random) {
  const auto unit = static_cast<float>(static_cast<std::int32_t>(random() >> 32)) * 0x1p-31f;
  const int spread = random() % 8 == 0 ? 140 : 6;
  return std::ldexp(unit, -static_cast<int>(random() % static_cast<unsigned>(spread)));
}

// 64-byte aligned room, so that the streaming stores are taken too.
struct Aligned {
  explicit Aligned(std::size_t bytes) : room(bytes + 64) {
    begin = room.data() + (-reinterpret_cast<std::uintptr_t>(room.data()) & 63);
  }
  std::vector<std::byte> room;
  std::byte* begin;
};

void expect_definition(const Case& test, unsigned mxcsr) {
  std::mt19937_64 random(test.count * 8 + test.source_count);
  std::vector<test::ReferenceTerm> terms;
  std::vector<Aligned> elements;
  std::vector<ReduceSource> sources;
  for (std::size_t k = 0; k < test.source_count; ++k) {
    test::ReferenceTerm term{0.3f + 0.4f * static_cast<float>(k), {}};
    elements.emplace_back(test.count * 4);
    for (std::size_t i = 0; i < test.count; ++i) {
      term.values.push_back(test::rounded(wild_float(random), test.dtype));
      test::write_element(elements.back().begin, test.dtype, i, term.values.back());
    }
    sources.push_back({elements.back().begin, term.weight, static_cast<int>(k)});
    terms.push_back(std::move(term));
  }
  std::vector<float> before(test.count);
  for (float& value : before) value = wild_float(random);
  const test::ReferenceSum expected = test::reference_reduce(terms, test.reduce_dtype, test.mode, before);

  Aligned accumulator(test.count * 4 + 4);
  std::memcpy(accumulator.begin, before.data(), test.count * 4);
  std::vector<double> norms(expected.leaf_norms.size(), -1);
  const test::MxcsrScope mode(mxcsr);
  const ReduceOutcome outcome = reduce_slices({.sources = sources,
                                               .dtype = test.dtype,
                                               .reduce_dtype = test.reduce_dtype,
                                               .count = test.count,
                                               .accumulator = reinterpret_cast<float*>(accumulator.begin),
                                               .mode = test.mode,
                                               .leaf_norms = norms.data()});
  EXPECT_EQ(test::mxcsr_control(), mxcsr);
  EXPECT_TRUE(outcome.finite);
  EXPECT_EQ(std::memcmp(accumulator.begin, expected.accumulator.data(), test.count * 4), 0)
      << to_string(test.dtype) << " in " << to_string(test.reduce_dtype) << ", " << test.source_count << " sources x "
      << test.count;
  EXPECT_EQ(norms, expected.leaf_norms);
}

TEST(ReduceKernel, HasTheBitsOfTheDefinitionOnEachTargetWithAnyTail) {
  test::for_each_simd_target([] {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const Dtype reduce_dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        for (const ReduceMode mode : {ReduceMode::store, ReduceMode::add}) {
          for (const std::size_t sources : {0u, 1u, 2u, 3u, 5u}) {
            for (const std::size_t count : {0u, 1u, 255u, 256u, 257u, 1000u}) {
              expect_definition({dtype, reduce_dtype, mode, sources, count}, test::default_mxcsr);
            }
          }
        }
      }
    }
  });
}

TEST(ReduceKernel, StreamedStoresHaveTheSameBits) {
  test::for_each_simd_target([] {
    expect_definition({Dtype::f32, Dtype::f32, ReduceMode::store, 2, 300'001}, test::default_mxcsr);
    expect_definition({Dtype::bf16, Dtype::f32, ReduceMode::store, 3, 300'001}, test::default_mxcsr);
  });
}

TEST(ReduceKernel, TheCallersFloatingPointModeChangesNoBit) {
  for (const unsigned mode : {test::flushing_mxcsr, test::rounding_up_mxcsr}) {
    expect_definition({Dtype::f32, Dtype::f32, ReduceMode::add, 3, 1000}, mode);
    expect_definition({Dtype::f16, Dtype::bf16, ReduceMode::store, 2, 1000}, mode);
  }
}

TEST(ReduceKernel, TheFirstBadElementIsFoundInAnyLeaf) {
  for (const std::size_t element : {0u, 100u, 256u, 1023u, 1024u, 1029u}) {
    std::vector<float> a(1030, 1);
    std::vector<float> b(1030, 1);
    std::vector<float> sum(1030);
    b[element] = std::numeric_limits<float>::quiet_NaN();
    a[1029] = std::numeric_limits<float>::infinity();
    const std::vector<ReduceSource> sources{{a.data(), 1, 4}, {b.data(), 1, 6}};
    const ReduceOutcome outcome = reduce_slices({.sources = sources, .count = sum.size(), .accumulator = sum.data()});
    EXPECT_FALSE(outcome.finite);
    EXPECT_EQ(outcome.nonfinite_element, element);
    EXPECT_EQ(outcome.nonfinite_rank, element == 1029 ? 4 : 6);
  }
}

TEST(ReduceKernel, FiniteSquaresNeverOverflow) {
  std::vector<float> a(256, std::numeric_limits<float>::max());
  std::vector<float> sum(256);
  std::vector<double> norms(1);
  const std::vector<ReduceSource> sources{{a.data(), 1, 0}};
  const ReduceOutcome outcome =
      reduce_slices({.sources = sources, .count = 256, .accumulator = sum.data(), .leaf_norms = norms.data()});
  EXPECT_TRUE(outcome.finite);
  EXPECT_GT(norms[0], 1e79);
}

}  // namespace
}  // namespace strata::sharding
