#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strata/error.h>
#include <strata/optimizer.h>

#include "optim/kernels.h"

namespace strata {
namespace {

using testing::HasSubstr;

template <class Make>
void expect_refused(const Make& make, const std::string& setting) {
  try {
    make();
    ADD_FAILURE() << "accepted a bad " << setting;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr(setting));
  }
}

TEST(Settings, out_of_bounds_are_refused_by_name) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {-0.1f, 1.0f, 1.5f, nan, infinity}) {
    expect_refused([&] { adamw({.beta1 = bad}); }, "beta1");
    expect_refused([&] { adamw({.beta2 = bad}); }, "beta2");
    expect_refused([&] { lion({.beta1 = bad}); }, "beta1");
    expect_refused([&] { lion({.beta2 = bad}); }, "beta2");
    expect_refused([&] { sgd({.momentum = bad}); }, "momentum");
  }
  for (const float bad : {-0.1f, nan, infinity}) {
    expect_refused([&] { adamw({.eps = bad}); }, "eps");
    expect_refused([&] { adamw({.weight_decay = bad}); }, "weight_decay");
    expect_refused([&] { sgd({.weight_decay = bad}); }, "weight_decay");
    expect_refused([&] { lion({.weight_decay = bad}); }, "weight_decay");
  }
}

TEST(Settings, say_everything_that_changes_the_result) {
  EXPECT_EQ(adamw()->settings(), "beta1=0.9 beta2=0.999 eps=1e-08 weight_decay=0.01");
  EXPECT_EQ(sgd()->settings(), "momentum=0.9 weight_decay=0 kind=plain");
  EXPECT_EQ(sgd({.kind = Momentum::nesterov})->settings(), "momentum=0.9 weight_decay=0 kind=nesterov");
  EXPECT_EQ(lion()->settings(), "beta1=0.9 beta2=0.99 weight_decay=0");
  EXPECT_NE(adamw({.beta1 = 0.9f})->settings(), adamw({.beta1 = 0.90000004f})->settings());
}

TEST(Settings, decay_can_be_off_for_a_tensor) {
  const std::vector<std::pair<std::shared_ptr<const Optimizer>, std::shared_ptr<const Optimizer>>> pairs = {
      {adamw({.weight_decay = 0.5f}), adamw({.weight_decay = 0.0f})},
      {sgd({.weight_decay = 0.5f}), sgd({.weight_decay = 0.0f})},
      {lion({.weight_decay = 0.5f}), lion({.weight_decay = 0.0f})}};
  const auto updated = [](const Optimizer& optimizer, Decay decay) {
    float master = 3.0f, published = 0, first = 0.25f, second = 0.5f;
    const float gradient = 0.125f;
    optimizer.update({.count = 1,
                      .master = &master,
                      .moments = {&first, &second},
                      .gradient = &gradient,
                      .published = &published,
                      .published_dtype = Dtype::f32},
                     {.lr = 0.1f, .decay = decay});
    return master;
  };
  for (const auto& [decaying, plain] : pairs) {
    SCOPED_TRACE(decaying->name());
    EXPECT_EQ(updated(*decaying, Decay::off), updated(*plain, Decay::on));
    EXPECT_NE(updated(*decaying, Decay::on), updated(*plain, Decay::on));
  }
}

TEST(Constants, powers_are_by_squaring) {
  EXPECT_EQ(optim::power(0.9, 0), 1.0);
  EXPECT_EQ(optim::power(0.5, 10), 0x1p-10);
  EXPECT_EQ(optim::power(0.0, 3), 0.0);
  EXPECT_NEAR(optim::power(0.999, 1000), std::pow(0.999, 1000), 1e-13);
  EXPECT_EQ(optim::power(0.9, std::numeric_limits<std::uint64_t>::max()), 0.0);
}

TEST(Constants, are_rounded_once_from_f64) {
  const UpdateStep step{.lr = 0.01f, .applied_count = 3, .lr_factor = 0.3f};
  const optim::AdamWConstants constants = optim::adamw_constants({.weight_decay = 0.1f}, step);
  const double rate = double{0.01f} * double{0.3f};
  const double beta1 = double{0.9f}, beta2 = double{0.999f};
  EXPECT_EQ(constants.keep, static_cast<float>(1 - rate * double{0.1f}));
  EXPECT_EQ(constants.one_minus_beta2, static_cast<float>(1 - beta2));
  EXPECT_FLOAT_EQ(constants.step_size, static_cast<float>(rate / (1 - beta1 * beta1 * beta1)));
  EXPECT_FLOAT_EQ(constants.second_correction, static_cast<float>(1 / std::sqrt(1 - beta2 * beta2 * beta2)));
}

}  // namespace
}  // namespace strata
