#include "engine/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <vector>

#include "engine/update_team.h"

namespace strata::engine {
namespace {

using namespace std::chrono_literals;

TEST(Lane, does_acts_in_order) {
  Lane lane(
      "test", 4, [] {}, 1000ms);
  std::vector<int> done;
  std::vector<int>* target = &done;
  for (int i = 0; i < 1000; ++i) lane.enqueue([target, i] { target->push_back(i); });
  lane.drain();
  ASSERT_EQ(done.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(done[static_cast<std::size_t>(i)], i);
}

TEST(Lane, first_failure_ends_it_and_every_later_event_tells) {
  Lane lane(
      "test", 16, [] {}, 1000ms);
  std::atomic<int> ran{0};
  std::atomic<int>* counter = &ran;
  const Event good = lane.enqueue([counter] { ++*counter; });
  const Event bad = lane.enqueue([] { throw Error(ErrorCode::peer_lost, "rank 3 died"); });
  const Event later = lane.enqueue([counter] { ++*counter; });
  good.wait();
  for (const Event& event : {bad, later}) {
    try {
      event.wait();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "peer_lost: rank 3 died");
    }
    EXPECT_TRUE(event.ready());
  }
  EXPECT_THROW(lane.check(), Error);
  EXPECT_THROW(lane.drain(), Error);
  good.wait();  // done before the failure, and stays so
  EXPECT_EQ(ran.load(), 1);
}

TEST(Lane, other_exceptions_become_errors) {
  Lane lane(
      "test", 16, [] {}, 1000ms);
  const Event bad = lane.enqueue([] { throw std::runtime_error("odd"); });
  EXPECT_THROW(bad.wait(), Error);
}

TEST(Lane, shows_life_while_idle_and_while_it_waits_for_another) {
  std::atomic<int> beats{0};
  Lane lane(
      "test", 4, [&] { ++beats; }, 1ms);
  while (beats.load() < 3) std::this_thread::yield();
  Lane other(
      "other", 4, [] {}, 1000ms);
  std::latch release(1);
  std::latch* gate = &release;
  const Event blocked = other.enqueue([gate] { gate->wait(); });
  struct Waiting {
    const Lane* lane;
    const Event* event;
  } waiting{&lane, &blocked};
  const Event done = lane.enqueue([waiting] { waiting.lane->wait_with_idle(*waiting.event); });
  const int before = beats.load();
  while (beats.load() < before + 3) std::this_thread::yield();
  EXPECT_FALSE(done.ready());
  release.count_down();
  done.wait();
}

TEST(Lane, finish_does_what_was_enqueued) {
  std::atomic<int> ran{0};
  std::atomic<int>* counter = &ran;
  Lane lane(
      "test", 64, [] {}, 1000ms);
  for (int i = 0; i < 50; ++i) lane.enqueue([counter] { ++*counter; });
  lane.finish();
  EXPECT_EQ(ran.load(), 50);
}

TEST(Event, without_a_lane_is_complete) {
  const Event event;
  EXPECT_TRUE(event.ready());
  event.wait();
  EXPECT_TRUE(event.wait_for(0ns));
}

TEST(UpdateTeam, each_index_once_whatever_the_team) {
  for (const std::uint32_t threads : {1u, 2u, 5u}) {
    UpdateTeam team(threads);
    for (const std::size_t count : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> hits(count);
      for (int round = 0; round < 20; ++round) team.run(count, [&](std::size_t i) noexcept { ++hits[i]; });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 20);
    }
  }
}

}  // namespace
}  // namespace strata::engine
