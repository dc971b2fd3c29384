#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/forecast/step_traffic.h"

namespace strata::engine {
namespace {

constexpr std::size_t unit_elements = 1 << 20;
constexpr std::uint32_t chunk_elements = 1 << 18;

// Two units of 1 Mi elements on `world_size` ranks, with everything where the options send it.
struct Case {
  explicit Case(const Options& options_given, int ranks = 2, Training training = Training::trainable)
      : options(options_given) {
    for (const char* name : {"a", "b"}) {
      Tensor tensor;
      tensor.name = name;
      tensor.shape = {1024, 1024};
      tensor.training = training;
      units.push_back({.name = name, .tensors = {tensor}, .forward_s = 0.5, .backward_s = 1.5});
    }
    for (const Unit& unit : units) layouts.emplace_back(unit, ranks);
    const StateShape state{layouts, 2, chunk_elements};
    TrafficShape shape;
    shape.world_size = ranks;
    shape.prefetch = 1;
    shape.slot_count = 5;
    shape.micro_batch_count = 3;
    traffic = step_traffic(units, state, lowest_placement(state, options), shape, options);
  }

  double updated(double ChunkTraffic::*bytes) const {
    double sum = 0;
    for (const UnitTraffic& unit : traffic.units) {
      for (const ChunkTraffic& chunk : unit.chunks) sum += chunk.count * chunk.*bytes;
    }
    return sum;
  }

  Options options;
  std::vector<Unit> units;
  std::vector<sharding::FlatLayout> layouts;
  StepTraffic traffic;
};

Options on_disk(Home params, Home optimizer, Home gradients) {
  Options options;
  options.nvme_dirs = {"d"};
  options.params = params;
  options.optimizer = optimizer;
  options.gradients = gradients;
  return options;
}

constexpr double shard_bytes_each = 2 * unit_elements / 2;  // one byte for each element of both units on one rank

TEST(StepTraffic, TakesOverArithmeticAndSchedule) {
  const Case made{Options{}};
  EXPECT_EQ(made.traffic.units[1].forward_s, 0.5);
  EXPECT_EQ(made.traffic.units[1].backward_s, 1.5);
  EXPECT_EQ(made.traffic.micro_batch_count, 3u);
  EXPECT_EQ(made.traffic.prefetch, 1u);
  EXPECT_EQ(made.traffic.gathered_count, 3u);
  EXPECT_EQ(made.traffic.slot_count, 5u);
}

TEST(StepTraffic, ASplitMasterTravelsInTwentyBytes) {
  const Case made(on_disk(Home::device, Home::nvme, Home::device));
  EXPECT_EQ(made.updated(&ChunkTraffic::load_bytes), 10 * shard_bytes_each);
  EXPECT_EQ(made.updated(&ChunkTraffic::store_bytes), 10 * shard_bytes_each);
  Options whole = made.options;
  whole.split_master = false;
  EXPECT_EQ(Case(whole).updated(&ChunkTraffic::load_bytes), 12 * shard_bytes_each);
}

TEST(StepTraffic, EverythingOnTheDisk) {
  const Case made(on_disk(Home::nvme, Home::nvme, Home::nvme));
  EXPECT_EQ(made.updated(&ChunkTraffic::load_bytes), (12 + 4) * shard_bytes_each);
  EXPECT_EQ(made.updated(&ChunkTraffic::store_bytes), (12 + 2) * shard_bytes_each);
  for (const UnitTraffic& unit : made.traffic.units) {
    EXPECT_EQ(unit.gather_load_bytes, 2.0 * unit_elements / 2);
    EXPECT_EQ(unit.commit_store_bytes, 4.0 * unit_elements / 2);
    EXPECT_EQ(unit.commit_load_bytes, unit.commit_store_bytes);
  }
}

TEST(StepTraffic, InMemoryNothingTouchesTheDisk) {
  for (int stage = 0; stage <= 3; ++stage) {
    Options options;
    options.stage = stage;
    options.params = options.optimizer = options.gradients = Home::device;
    const Case made(options);
    EXPECT_EQ(made.updated(&ChunkTraffic::load_bytes) + made.updated(&ChunkTraffic::store_bytes), 0) << stage;
    const double elements = stage == 0 ? 2.0 * unit_elements : shard_bytes_each;
    EXPECT_EQ(made.updated(&ChunkTraffic::memory_bytes), elements * (2 * 12 + 4 + 2)) << stage;
  }
}

TEST(StepTraffic, StagesExchangeWhatTheyShard) {
  const double n = unit_elements;
  const auto unit_of = [](int stage, ReducePolicy policy) {
    Options options;
    options.stage = stage;
    options.reduce = policy;
    options.params = options.optimizer = options.gradients = Home::device;
    return Case(options, 4).traffic.units[0];
  };
  const UnitTraffic three = unit_of(3, ReducePolicy::micro_batch);
  EXPECT_EQ(three.gather_bytes, 2 * 2 * n / 4);
  EXPECT_EQ(three.commit_bytes, 4 * n + 4 * n / 4);
  EXPECT_EQ(three.publish_bytes + three.step_bytes, 0);
  const UnitTraffic two = unit_of(2, ReducePolicy::micro_batch);
  EXPECT_EQ(two.gather_bytes, 0);
  EXPECT_EQ(two.publish_bytes, 2 * 2 * n);
  EXPECT_EQ(unit_of(0, ReducePolicy::micro_batch).step_bytes, 2 * 4 * n);
  EXPECT_EQ(unit_of(1, ReducePolicy::step).step_bytes, 4 * n + 4 * n / 4);
  EXPECT_GT(unit_of(1, ReducePolicy::step).commit_bytes, 0);
}

TEST(StepTraffic, FrozenUnitsAreGatheredAndNoMore) {
  const Case made(Options{}, 2, Training::frozen);
  EXPECT_EQ(made.traffic.units[0].gather_bytes, 2.0 * 2 * unit_elements / 2);
  EXPECT_EQ(made.traffic.units[0].commit_bytes, 0);
  EXPECT_TRUE(made.traffic.units[0].chunks.empty());
}

}  // namespace
}  // namespace strata::engine
