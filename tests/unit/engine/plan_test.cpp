#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <strata/strata.h>

namespace strata::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr Machine roomy{.device_free_bytes = std::uint64_t{1} << 40, .core_count = 8, .local_rank_count = 4};

// Ten blocks of exactly 1 Mi elements, which every world size up to 8 cuts without padding.
std::vector<Unit> even_units() {
  std::vector<Unit> units;
  for (int i = 0; i < 10; ++i) {
    units.push_back(
        {.name = "block." + std::to_string(i), .tensors = {{.name = "w." + std::to_string(i), .shape = {1024, 1024}}}});
  }
  return units;
}

std::uint64_t row_bytes(const Plan& plan, std::string_view what) {
  std::uint64_t sum = 0;
  for (const PlanRow& row : plan.rows) sum += row.what == what ? row.bytes : 0;
  return sum;
}

Plan plan_for(Options options, int world_size) { return make_plan(even_units(), *adamw(), world_size, options, roomy); }

TEST(Plan, stages_shard_what_they_say) {
  const std::uint64_t p = 10 << 20;
  Options options;
  for (int stage = 0; stage <= 3; ++stage) {
    options.stage = stage;
    const Plan plan = plan_for(options, 4);
    EXPECT_EQ(row_bytes(plan, "master and moments"), 12 * p / (stage >= 1 ? 4 : 1)) << stage;
    EXPECT_EQ(row_bytes(plan, "gradient accumulators"), 4 * p / (stage >= 1 ? 4 : 1)) << stage;
    EXPECT_EQ(row_bytes(plan, "published parameters"), 2 * p / (stage >= 3 ? 4 : 1)) << stage;
    EXPECT_EQ(row_bytes(plan, "gradient leases"), stage <= 1 ? 4 * p + (4 << 20) : 2 * (4 << 20)) << stage;
    EXPECT_EQ(row_bytes(plan, "gathered units"), stage == 3 ? 4 * (2 << 20) / 4 : 0) << stage;
    EXPECT_EQ(plan.parameter_count, p);
    EXPECT_EQ(plan.threads, 2u);
  }
}

TEST(Plan, is_pure_and_falls_with_the_stage) {
  std::uint64_t before = ~std::uint64_t{0};
  for (int stage = 0; stage <= 3; ++stage) {
    Options options;
    options.stage = stage;
    const Plan one = plan_for(options, 2);
    EXPECT_EQ(one.table(), plan_for(options, 2).table());
    EXPECT_LT(one.total_bytes(TierKind::device), before);
    before = one.total_bytes(TierKind::device);
  }
}

TEST(Plan, prefetch_is_what_the_budget_allows) {
  Options options;
  options.prefetch = 50;
  const Plan most = plan_for(options, 2);
  EXPECT_EQ(most.prefetch, 8u);  // ten units, two of them leased
  options.device_memory_bytes = most.least_device_bytes;
  EXPECT_EQ(plan_for(options, 2).prefetch, 0u);
  options.device_memory_bytes = most.least_device_bytes + 3 * (2 << 20) / 2;
  const Plan some = plan_for(options, 2);
  EXPECT_EQ(some.prefetch, 3u);
  EXPECT_LE(some.total_bytes(TierKind::device), *options.device_memory_bytes);
  EXPECT_THAT(some.table(), HasSubstr("3 units gathered ahead"));
  options.device_memory_bytes = most.least_device_bytes - 1;
  try {
    plan_for(options, 2);
    FAIL() << "a budget one byte too small was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_budget);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("at least " + format_bytes(most.least_device_bytes)), HasSubstr("per rank")));
  }
}

TEST(Plan, one_outsized_unit_does_not_make_every_slot_its_size) {
  std::vector<Unit> units = even_units();
  units.push_back({.name = "embed", .tensors = {{.name = "table", .shape = {64, 1024, 1024}}}});
  Options options;
  options.prefetch = 4;
  const Plan plan = make_plan(units, *adamw(), 2, options, roomy);
  EXPECT_EQ(row_bytes(plan, "gathered units"), (2 * (128 << 20) + 4 * (2 << 20)) / 2u);
}

TEST(Plan, default_budget_is_nine_tenths_of_what_is_free) {
  Machine machine = roomy;
  machine.device_free_bytes = 1000 << 20;
  EXPECT_EQ(make_plan(even_units(), *adamw(), 2, {}, machine).device_budget_bytes, std::uint64_t{900} << 20);
}

TEST(Plan, a_step_policy_keeps_whole_accumulators) {
  Options options;
  options.reduce = ReducePolicy::step;
  for (int stage = 0; stage <= 3; ++stage) {
    options.stage = stage;
    EXPECT_EQ(row_bytes(plan_for(options, 4), "gradient accumulators"), 40u << 20);
    EXPECT_EQ(row_bytes(plan_for(options, 4), "gradient leases"), 8u << 20);
  }
}

TEST(Plan, ten_thousand_small_tensors_plan_quickly_and_exactly) {
  Unit unit{.name = "many"};
  for (int i = 0; i < 10000; ++i) unit.tensors.push_back({.name = "t" + std::to_string(i), .shape = {i % 7}});
  const Plan plan = make_plan({&unit, 1}, *adamw(), 3, {}, roomy);
  std::uint64_t count = 0;
  for (const Tensor& tensor : unit.tensors) count += tensor.element_count();
  EXPECT_EQ(plan.parameter_count, count);
}

}  // namespace
}  // namespace strata::test
