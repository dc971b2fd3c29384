#include "optim/loss_scaler.h"

#include <limits>

#include <gtest/gtest.h>

#include <strata/error.h>

namespace strata::optim {
namespace {

void apply(LossScaler& scaler, int count) {
  for (int i = 0; i < count; ++i) scaler.applied();
}

TEST(LossScaler, starts_at_65536_and_doubles_after_2000_applied_steps_in_a_row) {
  LossScaler scaler;
  EXPECT_EQ(scaler.scale(), 65536);
  apply(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 65536);
  apply(scaler, 1);
  EXPECT_EQ(scaler.scale(), 131072);
  EXPECT_EQ(scaler.state().applied_in_a_row, 0u);
  apply(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 131072);
  apply(scaler, 1);
  EXPECT_EQ(scaler.scale(), 262144);
}

TEST(LossScaler, halves_at_a_skip_and_counts_anew) {
  LossScaler scaler;
  apply(scaler, 1999);
  scaler.skipped_nonfinite();
  EXPECT_EQ(scaler.scale(), 32768);
  apply(scaler, 1999);
  EXPECT_EQ(scaler.scale(), 32768);
  apply(scaler, 1);
  EXPECT_EQ(scaler.scale(), 65536);
}

TEST(LossScaler, stays_within_its_bounds) {
  LossScaler falling;
  for (int i = 0; i < 40; ++i) falling.skipped_nonfinite();
  EXPECT_EQ(falling.scale(), 1);
  LossScaler rising;
  apply(rising, 2000 * 12);
  EXPECT_EQ(rising.scale(), LossScaler::scale_max);
  rising.skipped_nonfinite();
  EXPECT_EQ(rising.scale(), LossScaler::scale_max / 2);
}

TEST(LossScaler, continues_from_its_state) {
  LossScaler whole;
  apply(whole, 1500);
  LossScaler resumed(whole.state());
  apply(whole, 700);
  apply(resumed, 700);
  EXPECT_EQ(whole.state(), resumed.state());
  EXPECT_EQ(resumed.scale(), 131072);
}

TEST(LossScaler, refuses_a_state_that_it_never_has) {
  for (const double scale : {0.0, 0.5, 3.0, -2.0, 33554432.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(LossScaler({.scale = scale}), Error) << scale;
  }
  EXPECT_THROW(LossScaler({.scale = 2, .applied_in_a_row = 2000}), Error);
}

}  // namespace
}  // namespace strata::optim
