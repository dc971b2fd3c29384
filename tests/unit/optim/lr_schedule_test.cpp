#include <limits>

#include <gtest/gtest.h>

#include <strata/error.h>
#include <strata/optimizer.h>

#include "support/golden.h"

namespace strata {
namespace {

TEST(LrSchedule, cosine_agrees_with_the_reference_to_the_bit) {
  const test::Golden golden(STRATA_TEST_DATA "/golden_optimizers/inputs.safetensors");
  const LrSchedule schedule{.shape = LrShape::cosine, .lr = 1e-2, .warmup_steps = 3, .total_steps = 10};
  ASSERT_EQ(golden.f64("lr").size(), 10u);
  for (std::uint64_t step = 0; step < 10; ++step) EXPECT_EQ(double{schedule.at(step)}, golden.f64("lr")[step]) << step;
}

TEST(LrSchedule, warms_up_then_stays_constant) {
  const LrSchedule schedule{.shape = LrShape::constant, .lr = 0.5, .warmup_steps = 4};
  EXPECT_EQ(schedule.at(0), 0.125f);
  EXPECT_EQ(schedule.at(2), 0.375f);
  EXPECT_EQ(schedule.at(3), 0.5f);
  EXPECT_EQ(schedule.at(std::numeric_limits<std::uint64_t>::max()), 0.5f);
  EXPECT_EQ((LrSchedule{.lr = 0.5}.at(0)), 0.5f);
}

TEST(LrSchedule, falls_linearly_and_stays_at_the_end) {
  const LrSchedule schedule{
      .shape = LrShape::linear, .lr = 1.0, .warmup_steps = 2, .total_steps = 10, .final_fraction = 0.5};
  EXPECT_EQ(schedule.at(0), 0.5f);
  EXPECT_EQ(schedule.at(1), 1.0f);
  EXPECT_EQ(schedule.at(5), 0.75f);
  EXPECT_EQ(schedule.at(9), 0.5f);
  EXPECT_EQ(schedule.at(10), 0.5f);
  EXPECT_EQ(schedule.at(1'000'000), 0.5f);
}

TEST(LrSchedule, without_warm_up_begins_at_the_peak) {
  for (const LrShape shape : {LrShape::linear, LrShape::cosine}) {
    const LrSchedule schedule{.shape = shape, .lr = 1.0, .total_steps = 5, .final_fraction = 0.0};
    EXPECT_EQ(schedule.at(0), 1.0f);
    EXPECT_FLOAT_EQ(schedule.at(2), 0.5f);
    EXPECT_EQ(schedule.at(4), 0.0f);
  }
}

TEST(LrSchedule, has_no_point_between_when_the_peak_is_the_last_step) {
  const LrSchedule schedule{.shape = LrShape::cosine, .lr = 1.0, .warmup_steps = 0, .total_steps = 1};
  EXPECT_EQ(schedule.at(0), 1.0f);
  EXPECT_EQ(schedule.at(1), 0.1f);
  const LrSchedule two{.shape = LrShape::linear, .lr = 1.0, .warmup_steps = 1, .total_steps = 2};
  EXPECT_EQ(two.at(0), 1.0f);
  EXPECT_EQ(two.at(1), 0.1f);
}

TEST(LrSchedule, refuses_what_makes_no_sense) {
  const auto refused = [](const LrSchedule& schedule, const std::string& name) {
    try {
      schedule.at(0);
      ADD_FAILURE() << "accepted a bad " << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused({.lr = -1}, "lr");
  refused({.lr = std::numeric_limits<double>::quiet_NaN()}, "lr");
  refused({.shape = LrShape::cosine, .warmup_steps = 10, .total_steps = 10}, "total_steps");
  refused({.shape = LrShape::linear}, "total_steps");
  refused({.shape = LrShape::linear, .total_steps = 2, .final_fraction = 1.5}, "final_fraction");
}

}  // namespace
}  // namespace strata
