// Where the plan puts what: the fastest tier first, in the order published shards, accumulators, records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <strata/strata.h>

namespace strata::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr Machine roomy{.device_free_bytes = std::uint64_t{1} << 40,
                        .nvme_free_bytes = std::uint64_t{1} << 40,
                        .core_count = 4,
                        .local_rank_count = 1};

// Ten blocks of 1 Mi elements: 20 MiB published, 40 MiB of accumulators, 120 MiB of records.
std::vector<Unit> even_units() {
  std::vector<Unit> units;
  for (int i = 0; i < 10; ++i) {
    units.push_back(
        {.name = "block." + std::to_string(i), .tensors = {{.name = "w." + std::to_string(i), .shape = {1024, 1024}}}});
  }
  return units;
}

Plan plan_for(const Options& options) { return make_plan(even_units(), *adamw(), 1, options, roomy); }

std::uint64_t row_bytes(const Plan& plan, std::string_view what, TierKind tier) {
  std::uint64_t sum = 0;
  for (const PlanRow& row : plan.rows) sum += row.what == what && row.tier == tier ? row.bytes : 0;
  return sum;
}

Options budgets(std::uint64_t device_bytes, std::uint64_t host_bytes) {
  Options options;
  options.device_memory_bytes = device_bytes;
  options.host_memory_bytes = host_bytes;
  options.chunk = 65536;
  options.prefetch = 0;
  return options;
}

std::string refusal(const Options& options) {
  try {
    plan_for(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Placement, fastest_tier_first_in_the_order_published_accumulators_records) {
  const std::uint64_t fixed = plan_for(budgets(std::uint64_t{1} << 40, 0)).total_bytes(TierKind::device) - 180 * mib;
  const struct {
    std::uint64_t device_room, published, accumulators, records;
  } cases[] = {{180, 20, 40, 120}, {120, 20, 40, 60}, {60, 20, 40, 0}, {40, 20, 20, 0}, {20, 20, 0, 0}, {0, 0, 0, 0}};
  for (const auto& expected : cases) {
    const Plan plan = plan_for(budgets(fixed + expected.device_room * mib, 200 * mib));
    EXPECT_EQ(row_bytes(plan, "published parameters", TierKind::device), expected.published * mib);
    EXPECT_EQ(row_bytes(plan, "gradient accumulators", TierKind::device), expected.accumulators * mib);
    EXPECT_EQ(row_bytes(plan, "master and moments", TierKind::device), expected.records * mib);
    EXPECT_EQ(row_bytes(plan, "master and moments", TierKind::host), (120 - expected.records) * mib);
    EXPECT_EQ(plan.total_bytes(TierKind::nvme), 0u);
  }
}

TEST(Placement, what_memory_cannot_hold_goes_to_nvme_in_whole_chunks) {
  Options options = budgets(100 * mib, 60 * mib);
  options.nvme_dirs = {"somewhere"};
  const Plan plan = plan_for(options);
  EXPECT_EQ(row_bytes(plan, "published parameters", TierKind::device), 20 * mib);
  EXPECT_EQ(row_bytes(plan, "gradient accumulators", TierKind::device), 40 * mib);
  const std::uint64_t in_memory =
      row_bytes(plan, "master and moments", TierKind::device) + row_bytes(plan, "master and moments", TierKind::host);
  EXPECT_EQ(in_memory % (65536 * 12), 0u);
  // Two copies of remainder and moments for the rest.
  EXPECT_EQ(row_bytes(plan, "master and moments", TierKind::nvme), (120 * mib - in_memory) / 12 * 10 * 2);
  EXPECT_LE(plan.total_bytes(TierKind::device), 100 * mib);
  EXPECT_LE(plan.total_bytes(TierKind::host), 60 * mib);
  EXPECT_GT(plan.total_bytes(TierKind::device) + plan.total_bytes(TierKind::host), 155 * mib) << "room was wasted";
}

TEST(Placement, masters_are_split_only_where_the_published_half_stays_in_memory) {
  Options options;
  options.nvme_dirs = {"somewhere"};
  options.optimizer = Home::nvme;
  const auto bytes_an_element = [&] {
    return row_bytes(plan_for(options), "master and moments", TierKind::nvme) / (10 * mib) / 2;
  };
  EXPECT_EQ(bytes_an_element(), 10u);
  options.split_master = false;
  EXPECT_EQ(bytes_an_element(), 12u);
  options.split_master = true;
  options.params = Home::nvme;
  EXPECT_EQ(bytes_an_element(), 12u);
  options.params = Home::host;
  EXPECT_EQ(bytes_an_element(), 10u);
  options.dtype = Dtype::f16;
  EXPECT_EQ(bytes_an_element(), 12u);
}

TEST(Placement, each_budget_is_refused_by_its_name_and_its_least_is_enough) {
  const struct {
    std::string_view option;
    std::function<void(Options&, std::uint64_t)> set;
  } cases[] = {
      {"--strata-device-memory", [](Options& o, std::uint64_t bytes) { o.device_memory_bytes = bytes; }},
      {"--strata-host-memory", [](Options& o, std::uint64_t bytes) { o.host_memory_bytes = bytes; }},
      {"--strata-nvme-memory", [](Options& o, std::uint64_t bytes) { o.nvme_memory_bytes = bytes; }},
  };
  for (const auto& [option, set] : cases) {
    Options options = budgets(std::uint64_t{1} << 30, std::uint64_t{1} << 30);
    options.nvme_dirs = {"somewhere"};
    options.nvme_memory_bytes = std::uint64_t{1} << 40;
    options.optimizer = options.gradients = Home::nvme;
    options.params = Home::host;
    set(options, 4096);
    const std::string text = refusal(options);
    EXPECT_THAT(text,
                AllOf(HasSubstr("out_of_budget"), HasSubstr(option), HasSubstr("at least"), HasSubstr("per rank")));
    const std::size_t at = text.find('(', text.find("at least"));
    const std::uint64_t least = std::stoull(text.substr(at + 1));
    set(options, least);
    EXPECT_EQ(refusal(options), "no error") << option;
    set(options, least - 1);
    EXPECT_THAT(refusal(options), HasSubstr(option));
  }
}

TEST(Placement, a_default_budget_shares_what_is_free_between_device_and_host) {
  Machine machine = roomy;
  machine.device_free_bytes = 300 * mib;
  Options options;
  options.optimizer = Home::host;
  const Plan plan = make_plan(even_units(), *adamw(), 1, options, machine);
  EXPECT_LE(plan.total_bytes(TierKind::device) + plan.total_bytes(TierKind::host), 270 * mib);
  machine.device_free_bytes = 180 * mib;
  EXPECT_THROW(make_plan(even_units(), *adamw(), 1, options, machine), Error);
}

TEST(Placement, stashed_activations_have_the_fastest_home_with_room) {
  Options options = budgets(400 * mib, 400 * mib);
  options.activation_memory_bytes = 100 * mib;
  EXPECT_EQ(row_bytes(plan_for(options), "stashed activations", TierKind::device), 100 * mib);
  options.device_memory_bytes = 90 * mib;
  EXPECT_EQ(row_bytes(plan_for(options), "stashed activations", TierKind::host), 100 * mib);
  options.host_memory_bytes = 90 * mib;
  options.device_memory_bytes = 90 * mib;
  options.nvme_dirs = {"somewhere"};
  EXPECT_EQ(row_bytes(plan_for(options), "stashed activations", TierKind::nvme), 100 * mib);
}

}  // namespace
}  // namespace strata::test
