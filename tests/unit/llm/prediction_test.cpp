#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <strata/rendezvous.h>

#include "prediction.h"
#include "unit/llm/plain_memory.h"

namespace llm {
namespace {

class TimedUnits : public ::testing::TestWithParam<bool> {
 protected:
  static DecoderOptions options() {
    DecoderOptions made;
    made.batch = 2;
    made.seq = 16;
    made.recompute = GetParam();
    return made;
  }
};

TEST_P(TimedUnits, BlocksTakeTimeAndTheHeadItsShare) {
  const Config config = preset("tiny");
  const auto world = strata::solo_world();
  const auto decoder = make_decoder(config, options());
  const std::vector<strata::Unit> units = timed_units(config, *decoder, options(), *world);
  const std::vector<strata::Unit> plain = make_units(config);
  ASSERT_EQ(units.size(), plain.size());
  for (std::size_t i = 0; i < units.size(); ++i) EXPECT_EQ(units[i].name, plain[i].name);
  for (std::size_t i = 1; i + 1 < units.size(); ++i) {
    EXPECT_GT(units[i].forward_s, 0);
    EXPECT_GT(units[i].backward_s, 0);
    EXPECT_LT(units[i].forward_s + units[i].backward_s, 1);
  }
  EXPECT_EQ(units.front().forward_s, 0);
  EXPECT_GT(units.back().backward_s, 0);
}

TEST_P(TimedUnits, LeaveNoTraceInTheModelsNumbers) {
  const Config config = preset("tiny");
  const auto values = test::random_parameters(config, 5);
  const std::vector<std::int32_t> tokens(32, 3), targets(32, 4);
  DecoderOptions without = options();
  without.recompute = false;  // whose blocks' inputs a caller would have to keep
  test::PlainModel fresh(config, without, values), used(config, without, values);
  const auto world = strata::solo_world();
  timed_units(config, *used.decoder, without, *world);
  EXPECT_EQ(used.run(tokens, targets, 2).mean, fresh.run(tokens, targets, 2).mean);
  for (const auto& [name, unused] : values) EXPECT_EQ(used.gradient(name), fresh.gradient(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(Recompute, TimedUnits, ::testing::Bool());

}  // namespace
}  // namespace llm
