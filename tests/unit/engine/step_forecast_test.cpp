#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/forecast/lanes.h"
#include "engine/forecast/step_forecast.h"

namespace strata::engine {
namespace {

using ::testing::ElementsAre;

TEST(Lanes, OneAtATimeOnAResourceAndOthersBeside) {
  Lanes lanes(3);
  lanes.add(0, Resource::processor, 2, {no_act, no_act, no_act, no_act});
  lanes.add(1, Resource::processor, 1, {no_act, no_act, no_act, no_act});
  lanes.add(2, Resource::disk, 5, {no_act, no_act, no_act, no_act});
  EXPECT_THAT(lanes.run(), ElementsAre(2, 3, 5));
}

TEST(Lanes, AnActWaitsForWhatItNeedsAndForItsLane) {
  Lanes lanes(2);
  const std::size_t load = lanes.add(0, Resource::disk, 4, {no_act, no_act, no_act, no_act});
  const std::size_t first = lanes.add(1, Resource::processor, 1, {load, no_act, no_act, no_act});
  lanes.add(1, Resource::processor, 1, {no_act, no_act, no_act, no_act});
  lanes.add(0, Resource::disk, 2, {first, no_act, no_act, no_act});
  EXPECT_THAT(lanes.run(), ElementsAre(4, 5, 6, 7));
}

TEST(Lanes, WhatIsReadyFirstGoesFirst) {
  Lanes lanes(3);
  const std::size_t first = lanes.add(0, Resource::processor, 3, {no_act, no_act, no_act, no_act});
  lanes.add(0, Resource::processor, 1, {first, no_act, no_act, no_act});
  const std::size_t load = lanes.add(1, Resource::disk, 1, {no_act, no_act, no_act, no_act});
  lanes.add(2, Resource::processor, 1, {load, no_act, no_act, no_act});  // ready at 1, when the processor is taken
  EXPECT_THAT(lanes.run(), ElementsAre(3, 5, 1, 4));
}

TEST(Lanes, TheDiskHasOneQueue) {
  Lanes lanes(3);
  const std::size_t update = lanes.add(0, Resource::processor, 1, {no_act, no_act, no_act, no_act});
  const std::size_t store = lanes.add(1, Resource::disk, 4, {update, no_act, no_act, no_act});
  lanes.add(1, Resource::disk, 4, {update, no_act, no_act, no_act});  // asked for at 1
  lanes.add(2, Resource::disk, 4, {store, no_act, no_act, no_act});   // asked for at 5, behind it
  EXPECT_THAT(lanes.run(), ElementsAre(1, 5, 9, 13));
}

constexpr double gb = 1e9;

MachineSpeed plain_speed() {
  MachineSpeed speed;
  speed.memory_bytes_per_s = 30 * gb;
  speed.gather_bytes_per_s = 20 * gb;
  speed.reduce_bytes_per_s = 20 * gb;
  speed.seal_bytes_per_s = 30 * gb;
  speed.disk_read_bytes_per_s = 2 * gb;
  speed.disk_write_bytes_per_s = 2 * gb;
  speed.disk_both_bytes_per_s = 2 * gb;
  speed.call_overhead_s = 1e-6;
  return speed;
}

// Stage 3 with records on nvme: `record_bytes` read and as many written, by each of ten units in two chunks.
StepTraffic plain_traffic(double forward_s, double record_bytes) {
  StepTraffic traffic;
  traffic.prefetch = 2;
  traffic.gathered_count = 4;
  traffic.slot_count = 4;
  for (int i = 0; i < 10; ++i) {
    UnitTraffic unit;
    unit.forward_s = forward_s;
    unit.backward_s = 2 * forward_s;
    unit.gather_bytes = 2e5;
    unit.commit_bytes = 4e5;
    unit.chunks = {
        {.count = 2, .memory_bytes = record_bytes, .load_bytes = record_bytes / 2, .store_bytes = record_bytes / 2}};
    traffic.units.push_back(unit);
  }
  return traffic;
}

double predict(const StepTraffic& traffic) { return predict_step_s(traffic, plain_speed()); }

TEST(StepForecast, BoundByArithmeticItIsTheArithmetic) {
  const double arithmetic_s = 10 * 3 * 0.02;
  EXPECT_NEAR(predict(plain_traffic(0.02, 1e6)), arithmetic_s, 0.02 * arithmetic_s);
}

TEST(StepForecast, BoundByTheDiskItIsItsBytes) {
  const double disk_s = 10 * 2 * 1e8 / (2 * gb);
  EXPECT_NEAR(predict(plain_traffic(1e-5, 1e8)), disk_s, 0.1 * disk_s);
  EXPECT_GE(predict(plain_traffic(1e-5, 1e8)), 0.999 * disk_s);
}

TEST(StepForecast, WithoutArithmeticTrafficRemains) {
  const StepTraffic traffic = plain_traffic(0, 0);
  const double exchanged_s = 10 * (2e5 + 4e5) / (20 * gb);
  EXPECT_GT(predict(traffic), exchanged_s);
  EXPECT_LT(predict(traffic), 3 * exchanged_s);
  EXPECT_EQ(predict_step_s(traffic, MachineSpeed{}), 0);  // nothing measured, nothing costs
}

TEST(StepForecast, MoreBytesNeverTakeLess) {
  double last_s = 0;
  for (double record_bytes = 1e4; record_bytes < 1e9; record_bytes *= 1.7) {
    const double now_s = predict(plain_traffic(0.002, record_bytes));
    EXPECT_GE(now_s, last_s) << record_bytes;
    last_s = now_s;
  }
  EXPECT_GT(last_s, 1);
}

TEST(StepForecast, TheUpdateHidesBehindTheNextForwardPass) {
  // The disk is busy for half of the forward pass.
  const double forward_s = 10 * 0.02;
  const StepTraffic traffic = plain_traffic(0.02, 0.5 * forward_s / 20 * 2 * gb);
  EXPECT_LT(predict(traffic), 3 * forward_s + 0.25 * forward_s);
  EXPECT_GT(predict(traffic), 3 * forward_s);
}

TEST(StepForecast, TheBackwardPassHidesNoMoreThanTheSlotsHold) {
  // The disk is busy for twice the forward pass: at least half of that stands alone, less what is loaded ahead.
  const double forward_s = 10 * 0.02;
  const StepTraffic traffic = plain_traffic(0.02, 2 * forward_s / 20 * 2 * gb);
  EXPECT_GT(predict(traffic), 3 * forward_s + 0.6 * forward_s);
  StepTraffic many_slots = traffic;
  many_slots.slot_count = 20;
  EXPECT_LT(predict(many_slots), predict(traffic));
}

TEST(StepForecast, MicroBatchesRepeatArithmeticAndNotTheUpdate) {
  StepTraffic traffic = plain_traffic(0.01, 1e7);
  const double one_s = predict(traffic);
  traffic.micro_batch_count = 3;
  const double three_s = predict(traffic);
  EXPECT_NEAR(three_s - one_s, 2 * 10 * 3 * 0.01, 0.02);
}

TEST(StepForecast, ParametersOnTheDiskAreReadForEachGather) {
  StepTraffic traffic = plain_traffic(0, 0);
  for (UnitTraffic& unit : traffic.units) unit.gather_load_bytes = 1e7;
  // Those that are still there when the backward pass begins are not read again.
  const double loads = 10 + (10 - 4);
  EXPECT_NEAR(predict(traffic), loads * 1e7 / (2 * gb), 0.1 * loads * 1e7 / (2 * gb));
  StepTraffic computing = traffic;
  for (UnitTraffic& unit : computing.units) unit.forward_s = unit.backward_s = 0.01;
  EXPECT_NEAR(predict(computing), 20 * 0.01, 0.025);  // gathered ahead
  computing.prefetch = 0;
  computing.gathered_count = 2;
  EXPECT_GT(predict(computing), 20 * 0.01 + 0.8 * 18 * 1e7 / (2 * gb));
}

TEST(StepForecast, AccumulatorsOnTheDiskCostTheirBytes) {
  StepTraffic traffic = plain_traffic(0, 0);
  for (UnitTraffic& unit : traffic.units) {
    unit.commit_store_bytes = unit.commit_load_bytes = 1e7;
    unit.chunks = {{.count = 1, .memory_bytes = 1e7, .load_bytes = 1e7}};
  }
  const double one_s = predict(traffic);
  EXPECT_NEAR(one_s, 10 * 2e7 / (2 * gb), 0.02);
  traffic.micro_batch_count = 2;
  EXPECT_NEAR(predict(traffic) - one_s, 10 * 2e7 / (2 * gb), 0.02);
}

TEST(StepForecast, TheProcessorPaysForTheDisksBytes) {
  MachineSpeed speed = plain_speed();
  const StepTraffic traffic = plain_traffic(0.02, 1e7);
  const double before_s = predict_step_s(traffic, speed);
  speed.disk_processor_s_per_byte = 1e-9;
  EXPECT_NEAR(predict_step_s(traffic, speed) - before_s, 10 * 2 * 1e7 * 1e-9, 0.02);
  StepTraffic split = traffic;
  for (UnitTraffic& unit : split.units) unit.chunks[0].split_bytes = 1e7;
  speed.split_bytes_per_s = gb;
  EXPECT_NEAR(predict_step_s(split, speed) - predict_step_s(traffic, speed), 10 * 2 * 1e7 / gb, 0.02);
}

TEST(StepForecast, LoadsAndStoresAtOnceAsFastAsTheProbeSaw) {
  MachineSpeed speed = plain_speed();
  speed.disk_read_bytes_per_s = 4 * gb;
  speed.disk_write_bytes_per_s = 10 * gb;
  speed.disk_both_bytes_per_s = 3 * gb;
  const double disk_s = 10 * 2 * 1e8 / (3 * gb);
  EXPECT_NEAR(predict_step_s(plain_traffic(0, 1e8), speed), disk_s, 0.1 * disk_s);
}

}  // namespace
}  // namespace strata::engine
