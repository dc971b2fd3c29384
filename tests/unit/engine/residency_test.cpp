#include "engine/residency.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/schedule.h"

namespace strata::engine {
namespace {

TEST(Schedule, foretells_the_recorded_round) {
  Schedule schedule;
  EXPECT_EQ(schedule.foretell(0), never);
  for (const std::size_t unit : {0, 1, 2, 2, 1, 0}) schedule.note(unit);
  EXPECT_EQ(schedule.foretell(0), never);  // nothing recorded yet
  schedule.end_round();
  EXPECT_EQ(schedule.foretell(0), 0u);
  schedule.note(0);
  EXPECT_EQ(schedule.foretell(0), 1u);
  EXPECT_EQ(schedule.foretell(2), 2u);
  EXPECT_EQ(schedule.foretell(5), never);  // the round ends here
  EXPECT_EQ(schedule.distance(2), 1u);
  EXPECT_EQ(schedule.distance(7), never);
}

TEST(Schedule, follows_a_caller_who_strays) {
  Schedule schedule;
  for (const std::size_t unit : {0, 1, 2, 3, 4}) schedule.note(unit);
  schedule.end_round();
  schedule.note(0);
  schedule.note(3);  // skipped two
  EXPECT_EQ(schedule.foretell(0), 4u);
  schedule.note(9);  // unknown: the forecast stays
  EXPECT_EQ(schedule.foretell(0), 4u);
}

TEST(Residency, evicts_what_is_needed_last) {
  Schedule schedule;
  for (const std::size_t unit : {0, 1, 2, 0, 1}) schedule.note(unit);
  schedule.end_round();
  Residency residency({100, 100}, {10, 10, 10});
  schedule.note(0);
  const std::size_t first = residency.place(0, schedule, Residency::For::caller);
  schedule.note(1);
  const std::size_t second = residency.place(1, schedule, Residency::For::caller);
  EXPECT_NE(first, second);
  schedule.note(2);  // next come 0 and 1: 1 is needed later
  EXPECT_EQ(residency.place(2, schedule, Residency::For::caller), second);
  EXPECT_EQ(residency.slot_of(1), never);
  EXPECT_EQ(residency.slot_of(0), first);
}

TEST(Residency, a_prefetch_never_pushes_out_what_is_needed_sooner) {
  Schedule schedule;
  for (const std::size_t unit : {0, 1, 2}) schedule.note(unit);
  schedule.end_round();
  Residency residency({100}, {10, 10, 10});
  residency.place(0, schedule, Residency::For::caller);
  EXPECT_EQ(residency.place(1, schedule, Residency::For::prefetch), never);
  schedule.note(0);
  EXPECT_NE(residency.place(1, schedule, Residency::For::prefetch), never);
}

TEST(Residency, held_units_stay_and_small_slots_are_not_for_large_units) {
  Schedule schedule;
  Residency residency({100, 20}, {100, 20, 20});
  const std::size_t small = residency.place(1, schedule, Residency::For::caller);
  EXPECT_EQ(small, 1u);  // the smaller empty slot
  residency.hold(1);
  EXPECT_EQ(residency.place(0, schedule, Residency::For::caller), 0u);
  residency.hold(0);
  EXPECT_EQ(residency.place(2, schedule, Residency::For::caller), never);
  residency.release(1);
  EXPECT_EQ(residency.place(2, schedule, Residency::For::caller), 1u);
  EXPECT_EQ(residency.held_unit_count(), 1u);
}

// With one slot of the largest size for each lease, a unit finds a place whatever was gathered before.
TEST(Residency, leases_always_find_a_place) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t lease_count = 1 + random() % 3;
    std::vector<std::size_t> units(3 + random() % 8);
    for (std::size_t& bytes : units) bytes = 1 + random() % 50;
    std::vector<std::size_t> slots(lease_count, 50);
    for (std::size_t i = random() % 4; i > 0; --i) slots.push_back(1 + random() % 50);
    Residency residency(slots, units);
    Schedule schedule;
    std::vector<std::size_t> held;
    for (int act = 0; act < 200; ++act) {
      if (held.size() == lease_count || (!held.empty() && random() % 2)) {
        residency.release(held.back());
        held.pop_back();
        continue;
      }
      const std::size_t unit = random() % units.size();
      if (residency.holder_count(unit) > 0) continue;
      schedule.note(unit);
      if (residency.slot_of(unit) == never) {
        ASSERT_NE(residency.place(unit, schedule, Residency::For::caller), never);
      }
      residency.hold(unit);
      held.push_back(unit);
      if (act % 50 == 49) schedule.end_round();
      const std::size_t ahead = schedule.foretell(0);
      if (ahead != never && residency.slot_of(ahead) == never)
        residency.place(ahead, schedule, Residency::For::prefetch);
    }
  }
}

}  // namespace
}  // namespace strata::engine
