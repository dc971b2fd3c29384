// What every Optimizer promises, whatever it computes and wherever. A test program instantiates OptimizerContract with
// its cases; `reference` is the same arithmetic, one element after the other, with a default MXCSR.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <strata/detail/cast.h>
#include <strata/error.h>
#include <strata/optimizer.h>

#include "support/each_simd_target.h"
#include "support/mxcsr_scope.h"
#include "support/update_arrays.h"

namespace strata::test {

struct OptimizerCase {
  std::string name;
  std::shared_ptr<const Optimizer> optimizer;
  std::function<UpdateOutcome(const UpdatePiece&, const UpdateStep&)> reference;
};

inline constexpr UpdateStep contract_step{.lr = 0.01f, .applied_count = 3, .gradient_scale = 0.37f, .lr_factor = 0.5f};

class OptimizerContract : public testing::TestWithParam<OptimizerCase> {
 protected:
  const Optimizer& optimizer() const { return *GetParam().optimizer; }
  UpdateArrays arrays(std::size_t count, const UpdateDtypes& dtypes = {}, unsigned seed = 1) const {
    return {count, optimizer().moment_names().size(), dtypes, seed};
  }

  // Three steps as they are to be.
  UpdateArrays expected(UpdateArrays arrays, std::uint64_t& overflow_count) const {
    for (std::uint64_t t = 1; t <= 3; ++t) {
      UpdateStep step = contract_step;
      step.applied_count = t;
      overflow_count += GetParam().reference(arrays.piece(), step).published_overflow_count;
    }
    return arrays;
  }

  // The same by the optimizer, in the given pieces.
  UpdateArrays updated(UpdateArrays arrays, const std::vector<std::size_t>& cuts, std::uint64_t& overflow_count) const {
    for (std::uint64_t t = 1; t <= 3; ++t) {
      UpdateStep step = contract_step;
      step.applied_count = t;
      std::size_t first = 0;
      for (const std::size_t cut : cuts) {
        overflow_count += optimizer().update(arrays.piece(first, cut - first), step).published_overflow_count;
        first = cut;
      }
      overflow_count += optimizer().update(arrays.piece(first, arrays.count() - first), step).published_overflow_count;
    }
    return arrays;
  }
};

TEST_P(OptimizerContract, says_who_it_is) {
  EXPECT_FALSE(optimizer().name().empty());
  EXPECT_FALSE(optimizer().settings().empty());
  EXPECT_LE(optimizer().moment_names().size(), moments_max);
  for (const std::string_view moment : optimizer().moment_names()) EXPECT_FALSE(moment.empty());
}

TEST_P(OptimizerContract, has_the_reference_bits_on_every_target_for_every_count_and_dtype) {
  for (const UpdateDtypes& dtypes : all_update_dtypes()) {
    for (const std::size_t count : {0u, 1u, 2u, 3u, 7u, 15u, 16u, 17u, 31u, 64u, 1009u}) {
      const UpdateArrays start = arrays(count, dtypes);
      std::uint64_t want_overflow = 0;
      const UpdateArrays want = expected(start, want_overflow);
      for_each_simd_target([&] {
        std::uint64_t overflow = 0;
        EXPECT_EQ(updated(start, {}, overflow).first_difference(want), "") << count << " elements, " << dtypes.text();
        EXPECT_EQ(overflow, want_overflow);
      });
    }
  }
}

TEST_P(OptimizerContract, any_split_has_the_same_bits) {
  for_each_simd_target([&] {
    for (unsigned seed = 1; seed <= 12; ++seed) {
      std::mt19937 random(seed);
      const UpdateDtypes dtypes = all_update_dtypes()[seed % all_update_dtypes().size()];
      const UpdateArrays start = arrays(500 + seed, dtypes, seed);
      std::vector<std::size_t> cuts(random() % 40);
      for (std::size_t& cut : cuts) cut = random() % (start.count() + 1);
      std::sort(cuts.begin(), cuts.end());
      std::uint64_t whole_overflow = 0, split_overflow = 0;
      const UpdateArrays whole = updated(start, {}, whole_overflow);
      EXPECT_EQ(updated(start, cuts, split_overflow).first_difference(whole), "") << "seed " << seed;
      EXPECT_EQ(split_overflow, whole_overflow);
    }
  });
}

TEST_P(OptimizerContract, pieces_begin_anywhere_and_nothing_beside_them_is_touched) {
  for (const UpdateDtypes& dtypes : all_update_dtypes()) {
    for (std::size_t first = 0; first < 20; ++first) {
      const std::size_t count = 37;
      const UpdateArrays start = arrays(first + count + 20, dtypes, static_cast<unsigned>(first));
      UpdateArrays got = start, want = start;
      optimizer().update(got.piece(first, count), contract_step);
      for (std::size_t i = 0; i < count; ++i) GetParam().reference(want.piece(first + i, 1), contract_step);
      ASSERT_EQ(got.first_difference(want), "") << "from " << first << ", " << dtypes.text();
    }
  }
}

TEST_P(OptimizerContract, the_callers_floating_point_mode_changes_no_bit_and_comes_back) {
  for (const UpdateDtypes& dtypes : all_update_dtypes()) {
    const UpdateArrays start = arrays(301, dtypes);
    std::uint64_t overflow = 0;
    const UpdateArrays want = expected(start, overflow);
    for_each_simd_target([&] {
      for (const unsigned mode : {flushing_mxcsr, rounding_up_mxcsr}) {
        std::uint64_t ignored = 0;
        const MxcsrScope scope(mode);
        EXPECT_EQ(updated(start, {}, ignored).first_difference(want), "") << "mode " << mode << ", " << dtypes.text();
        EXPECT_EQ(mxcsr_control(), mode);
      }
    });
  }
}

TEST_P(OptimizerContract, threads_on_disjoint_pieces_have_the_same_bits) {
  const UpdateArrays start = arrays(20'001);
  std::uint64_t overflow = 0;
  const UpdateArrays want = updated(start, {}, overflow);
  UpdateArrays got = start;
  const auto run = [&](std::size_t first, std::size_t count) {
    for (std::uint64_t t = 1; t <= 3; ++t) {
      UpdateStep step = contract_step;
      step.applied_count = t;
      optimizer().update(got.piece(first, count), step);
    }
  };
  std::thread other(run, 0, 9'999);
  run(9'999, got.count() - 9'999);
  other.join();
  EXPECT_EQ(got.first_difference(want), "");
}

TEST_P(OptimizerContract, nothing_of_nothing_is_nothing) {
  EXPECT_EQ(optimizer().update({}, contract_step).published_overflow_count, 0u);
}

TEST_P(OptimizerContract, every_nan_becomes_one_nan) {
  for_each_simd_target([&] {
    for (const std::uint32_t bits : {0x7F800001u, 0xFF800001u, 0xFFC00000u, 0x7FFFFFFFu}) {
      UpdateArrays got = arrays(19, {.published = Dtype::bf16});
      for (std::size_t i = 0; i < got.count(); ++i) got.master()[i] = std::bit_cast<float>(bits);
      optimizer().update(got.piece(), contract_step);
      for (std::size_t i = 0; i < got.count(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got.master()[i]), 0x7FC00000u);
        std::uint16_t published = 0;
        std::memcpy(&published, got.published() + 2 * i, 2);
        ASSERT_EQ(published, 0x7FC0);
      }
    }
  });
}

TEST_P(OptimizerContract, a_non_finite_gradient_is_not_hidden) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    UpdateArrays got = arrays(1);
    got.set_gradient(0, bad);
    optimizer().update(got.piece(), contract_step);
    EXPECT_FALSE(std::isfinite(got.moment(0)[0]));
  }
}

TEST_P(OptimizerContract, published_f16_that_overflows_is_counted) {
  for_each_simd_target([&] {
    UpdateArrays got = arrays(100, {.published = Dtype::f16});
    for (std::size_t i = 0; i < got.count(); ++i) {
      got.master()[i] = i % 3 == 0 ? 70'000.0f : i % 3 == 1 ? -std::numeric_limits<float>::infinity() : 65'000.0f;
      got.set_gradient(i, 0.0f);
      for (std::size_t k = 0; k < optimizer().moment_names().size(); ++k) got.moment(k)[i] = 0;
    }
    UpdateStep still = contract_step;
    still.lr = 0;
    EXPECT_EQ(optimizer().update(got.piece(), still).published_overflow_count, 34u);
  });
}

TEST_P(OptimizerContract, lr_factor_multiplies_lr) {
  UpdateArrays got = arrays(50), want = got, still = got;
  UpdateStep step{.lr = 0.25f, .lr_factor = 0.5f};
  optimizer().update(got.piece(), step);
  step = {.lr = 0.125f};
  optimizer().update(want.piece(), step);
  EXPECT_EQ(got.first_difference(want), "");
  optimizer().update(still.piece(), {.lr = 0.25f, .lr_factor = 0.0f});
  EXPECT_NE(still.first_difference(want), "");
}

TEST_P(OptimizerContract, a_bad_call_is_refused_before_any_element) {
  UpdateArrays got = arrays(40);
  const UpdateArrays start = got;
  const auto refused = [&](const UpdatePiece& piece, const UpdateStep& step) {
    try {
      optimizer().update(piece, step);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(optimizer().name()), std::string::npos) << error.what();
    }
    EXPECT_EQ(got.first_difference(start), "");
  };
  UpdatePiece piece = got.piece();
  piece.gradient_dtype = Dtype::f16;
  refused(piece, contract_step);
  piece = got.piece();
  piece.published_dtype = Dtype::f64;
  refused(piece, contract_step);
  piece = got.piece();
  piece.moments[0] = nullptr;
  refused(piece, contract_step);
  refused(got.piece(), {.lr = std::numeric_limits<double>::quiet_NaN()});
  refused(got.piece(), {.lr = -1});
  refused(got.piece(), {.lr = 1, .applied_count = 0});
  refused(got.piece(), {.lr = 1, .gradient_scale = std::numeric_limits<float>::infinity()});
  refused(got.piece(), {.lr = 1, .lr_factor = -1.0f});
}

}  // namespace strata::test
