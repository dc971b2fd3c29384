// stash and fetch as a model calls them: where the plan puts them, what they take, and that a step leaves none behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "support/allocation_count.h"
#include "support/fresh_folder.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

using testing::HasSubstr;

constexpr std::size_t item_count = 100'000;  // f32, not a whole number of pieces
constexpr std::uint64_t key_count = 6;
constexpr std::uint64_t room_bytes = key_count * stashed_bytes(item_count * sizeof(float));

std::uint64_t row_bytes(const Plan& plan, std::string_view what, TierKind tier) {
  std::uint64_t sum = 0;
  for (const PlanRow& row : plan.rows) sum += row.what == what && row.tier == tier ? row.bytes : 0;
  return sum;
}

Options options_of(Home home, const FreshFolder& folder) {
  Options options;
  options.threads = 1;
  options.activations = home;
  options.activation_memory_bytes = room_bytes;
  options.nvme_dirs = {folder.path()};
  options.io_block_bytes = options.io_inflight_bytes = stash_piece_bytes;  // so that staging is less than the room
  return options;
}

// Forward and backward, with activations in between.
bool pass_with_stashes(Engine& engine, std::vector<float>& buffer) {
  engine.micro_batch();
  for (std::uint64_t key = 0; key < key_count; ++key) {
    for (std::size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(key * 1'000'003 + i);
    engine.stash(key, std::as_bytes(std::span(buffer)));
  }
  bool same = true;
  for (std::uint64_t key = key_count; key-- > 0;) {
    engine.fetch(key, std::as_writable_bytes(std::span(buffer)));
    for (std::size_t i = 0; i < buffer.size(); ++i) same &= buffer[i] == static_cast<float>(key * 1'000'003 + i);
  }
  return same;
}

class StashHomes : public testing::TestWithParam<Home> {};
INSTANTIATE_TEST_SUITE_P(Homes, StashHomes, testing::Values(Home::automatic, Home::device, Home::host, Home::nvme),
                         [](const auto& home) {
                           return home.param == Home::automatic ? "automatic"
                                  : home.param == Home::device  ? "device"
                                  : home.param == Home::host    ? "host"
                                                                : "nvme";
                         });

TEST_P(StashHomes, take_what_the_plan_says_and_give_the_bits_back) {
  const FreshFolder folder;
  const auto errors = on_each_rank(1, [&](int, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options_of(GetParam(), folder));
    const Plan& plan = engine.plan();
    const TierKind home = GetParam() == Home::nvme   ? TierKind::nvme
                          : GetParam() == Home::host ? TierKind::host
                                                     : TierKind::device;
    EXPECT_EQ(row_bytes(plan, "stashed activations", home), room_bytes);
    EXPECT_EQ(row_bytes(plan, "activation staging", TierKind::host) > room_bytes / 8, home == TierKind::nvme);
    engine.initialize(toy_initial);
    std::vector<float> buffer(item_count);
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(pass_with_stashes(engine, buffer));
      const StepReport report = engine.step({});
      EXPECT_EQ(report.device_bytes, plan.total_bytes(TierKind::device));
      EXPECT_EQ(report.host_bytes, plan.total_bytes(TierKind::host));
      EXPECT_EQ(report.nvme_bytes, plan.total_bytes(TierKind::nvme));
      if (home == TierKind::nvme) {
        EXPECT_GE(report.nvme.loaded_bytes, room_bytes / 2);
        EXPECT_GE(report.nvme.stored_bytes, report.nvme.loaded_bytes);
      } else {
        EXPECT_EQ(report.waits.activations_s, 0);
      }
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(StashHomes, allocate_nothing_after_the_first_step) {
  const FreshFolder folder;
  std::uint64_t counted = 0;
  const auto errors = on_each_rank(1, [&](int, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options_of(GetParam(), folder));
    engine.initialize(toy_initial);
    std::vector<float> buffer(item_count);
    pass_with_stashes(engine, buffer);
    engine.step({});
    start_counting_allocations();
    for (int step = 0; step < 2; ++step) {
      pass_with_stashes(engine, buffer);
      pass_with_stashes(engine, buffer);
    }
    counted = stop_counting_allocations();
    engine.step({});
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(counted, 0u);
}

TEST_P(StashHomes, a_step_with_stashes_is_refused_and_names_them) {
  const FreshFolder folder;
  const auto errors = on_each_rank(1, [&](int, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options_of(GetParam(), folder));
    engine.initialize(toy_initial);
    std::vector<std::byte> bytes(1000);
    engine.micro_batch();
    engine.stash(41, bytes);
    engine.stash(42, bytes);
    try {
      engine.step({});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("42, 41"));
      EXPECT_THAT(error.what(), HasSubstr("drop_stashes()"));
    }
    engine.drop_stashes();
    EXPECT_EQ(engine.step({}).step, 1u);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(RetunedStash, moves_to_another_home_between_steps) {
  const FreshFolder folder;
  const auto errors = on_each_rank(1, [&](int, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options_of(Home::device, folder));
    engine.initialize(toy_initial);
    std::vector<float> buffer(item_count);
    for (const Home home : {Home::nvme, Home::host, Home::nvme, Home::device}) {
      engine.micro_batch();
      engine.stash(1, std::as_bytes(std::span(buffer)));
      EXPECT_THROW(engine.retune(options_of(home, folder)), Error);
      engine.drop_stashes();
      engine.step({});
      engine.retune(options_of(home, folder));
      EXPECT_TRUE(pass_with_stashes(engine, buffer));
      const StepReport report = engine.step({});
      EXPECT_EQ(report.device_bytes, engine.plan().total_bytes(TierKind::device));
      EXPECT_EQ(report.host_bytes, engine.plan().total_bytes(TierKind::host));
      EXPECT_EQ(report.nvme_bytes, engine.plan().total_bytes(TierKind::nvme));
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// The homes by budget alone: the device, then host memory, then the disk; before any of the state.
TEST(ActivationPlan, goes_down_as_the_budgets_shrink) {
  Options options;
  options.activation_memory_bytes = std::uint64_t{64} << 20;
  options.nvme_dirs = {"/somewhere"};
  Machine machine;
  machine.nvme_free_bytes = std::uint64_t{1} << 40;
  const auto home_with = [&](std::uint64_t device_mib, std::uint64_t host_mib) {
    options.device_memory_bytes = device_mib << 20;
    options.host_memory_bytes = host_mib << 20;
    const Plan plan = make_plan(toy_units(), *adamw(), 1, options, machine);
    EXPECT_LE(plan.total_bytes(TierKind::device), *options.device_memory_bytes);
    EXPECT_LE(plan.total_bytes(TierKind::host), *options.host_memory_bytes);
    for (const TierKind tier : {TierKind::device, TierKind::host, TierKind::nvme}) {
      if (row_bytes(plan, "stashed activations", tier) > 0) return tier;
    }
    throw Error(ErrorCode::invalid_argument, "no row");
  };
  EXPECT_EQ(home_with(200, 200), TierKind::device);
  EXPECT_EQ(home_with(60, 200), TierKind::host);
  EXPECT_EQ(home_with(60, 60), TierKind::nvme);
  options.nvme_dirs.clear();
  EXPECT_EQ(home_with(60, 200), TierKind::host);
  try {
    home_with(60, 60);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_budget);
    EXPECT_THAT(error.what(), HasSubstr("stashed activations"));
  }
}

}  // namespace
}  // namespace strata::test
