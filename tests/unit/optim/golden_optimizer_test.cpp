#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <strata/detail/cast.h>
#include <strata/optimizer.h>

#include "support/golden.h"

namespace strata {
namespace {

using test::Golden;

// Ten steps of f32 arithmetic round about 1.5 ulp each of the largest term that entered the value; torch's own f32 lies
// up to 5.5 away. Parameters and momenta pass near zero, where a count of their own ulps says nothing.
constexpr double scaled_ulps_max = 15;

double ulp_of(double scale) {
  return scale == 0 ? 0x1p-149 : std::fmax(std::ldexp(1.0, std::ilogb(scale) - 23), 0x1p-149);
}

float f32_of(const Golden& golden, const char* name) { return static_cast<float>(golden.scalar(name)); }

std::shared_ptr<const Optimizer> make(const std::string& name, const Golden& golden) {
  if (name.starts_with("adamw")) {
    return adamw({.beta1 = f32_of(golden, "beta1"),
                  .beta2 = f32_of(golden, "beta2"),
                  .eps = f32_of(golden, "eps"),
                  .weight_decay = f32_of(golden, "weight_decay")});
  }
  if (name.starts_with("lion")) {
    return lion({.beta1 = f32_of(golden, "beta1"),
                 .beta2 = f32_of(golden, "beta2"),
                 .weight_decay = f32_of(golden, "weight_decay")});
  }
  return sgd({.momentum = f32_of(golden, "momentum"),
              .weight_decay = f32_of(golden, "weight_decay"),
              .kind = golden.scalar("nesterov") != 0 ? Momentum::nesterov : Momentum::plain});
}

struct Values {
  std::string name;
  std::vector<float> now;
};

void expect_near(const Golden& golden, const Values& values, int step) {
  const std::string key = values.name + "." + std::to_string(step);
  if (!golden.contains(key)) return;
  const auto want = golden.f64(key), scale = golden.f64("scale." + values.name);
  double worst = 0;
  std::size_t worst_at = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (golden.i64("checked")[i] == 0) continue;
    ASSERT_TRUE(std::isfinite(values.now[i])) << key << " element " << i;
    const double distance = std::fabs(values.now[i] - want[i]) / ulp_of(scale[i]);
    if (distance > worst) {
      worst = distance;
      worst_at = i;
    }
  }
  EXPECT_LE(worst, scaled_ulps_max) << key << " element " << worst_at;
  EXPECT_GT(worst, 0) << "f32 that equals f64 everywhere is not f32";
  testing::Test::RecordProperty(key, std::to_string(worst));
}

class GoldenOptimizer : public testing::TestWithParam<std::string> {};

TEST_P(GoldenOptimizer, ten_steps_agree_with_f64) {
  const Golden inputs(STRATA_TEST_DATA "/golden_optimizers/inputs.safetensors");
  const Golden golden(STRATA_TEST_DATA "/golden_optimizers/" + GetParam() + ".safetensors");
  const auto optimizer = make(GetParam(), golden);
  const bool gradient_is_bf16 = GetParam().ends_with("_bf16");
  const auto start = inputs.f32("param");
  const std::size_t count = start.size();
  std::vector<Values> values = {{"param", {start.begin(), start.end()}}};
  for (const std::string_view moment : optimizer->moment_names()) {
    values.push_back({std::string(moment), std::vector<float>(count)});
  }
  std::vector<bf16> published(count);
  UpdatePiece piece{.count = count,
                    .master = values[0].now.data(),
                    .gradient_dtype = gradient_is_bf16 ? Dtype::bf16 : Dtype::f32,
                    .published = published.data()};
  for (std::size_t i = 1; i < values.size(); ++i) piece.moments[i - 1] = values[i].now.data();

  for (int step = 1; step <= 10; ++step) {
    const std::size_t first = static_cast<std::size_t>(step - 1) * count;
    piece.gradient = gradient_is_bf16 ? static_cast<const void*>(inputs.bf16s("grad_bf16").data() + first)
                                      : static_cast<const void*>(inputs.f32("grad").data() + first);
    optimizer->update(piece, {.lr = inputs.f64("lr")[static_cast<std::size_t>(step - 1)],
                              .applied_count = static_cast<std::uint64_t>(step),
                              .gradient_scale = f32_of(golden, "grad_scale")});
    for (const Values& each : values) expect_near(golden, each, step);
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(published[i].bits, detail::to_bf16(values[0].now[i]).bits) << i;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenOptimizer,
                         testing::Values("adamw", "adamw_bf16", "adamw_scaled", "sgd", "sgd_bf16", "sgd_nesterov",
                                         "lion", "lion_bf16"),
                         [](const auto& info) { return info.param; });

TEST(GoldenAdamW, where_the_square_overflows_the_parameter_only_decays) {
  const Golden inputs(STRATA_TEST_DATA "/golden_optimizers/inputs.safetensors");
  const auto optimizer = adamw({.weight_decay = 0.5f});
  int seen = 0;
  for (std::size_t i = 0; i < inputs.f32("param").size(); ++i) {
    if (inputs.i64("class")[i] != 8) continue;
    float master = inputs.f32("param")[i], published = 0, first = 0, second = 0;
    const float gradient = inputs.f32("grad")[i];
    optimizer->update({.count = 1,
                       .master = &master,
                       .moments = {&first, &second},
                       .gradient = &gradient,
                       .published = &published,
                       .published_dtype = Dtype::f32},
                      {.lr = 0.5});
    if (!std::isinf(second)) continue;
    EXPECT_EQ(master, inputs.f32("param")[i] * 0.75f);
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace strata
