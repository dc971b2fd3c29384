// What every Tier promises, wherever its bytes live. A test program instantiates TierContract with its cases.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <strata/error.h>
#include <strata/tier.h>

#include "offload/private_memory.h"
#include "support/same_bytes.h"

namespace strata::test {

struct TierCase {
  std::string name;
  std::function<std::unique_ptr<Tier>(std::uint64_t capacity_bytes)> make;
  std::function<std::string()> why_not = [] { return std::string(); };  // what this machine lacks for it
};

inline void PrintTo(const TierCase& tier, std::ostream* out) { *out << tier.name; }

class TierContract : public testing::TestWithParam<TierCase> {
 protected:
  static constexpr std::uint64_t capacity_bytes = 4 << 20;

  void SetUp() override {
    if (const std::string reason = GetParam().why_not(); !reason.empty()) GTEST_SKIP() << reason;
  }

  Tier& make(std::uint64_t bytes = capacity_bytes) {
    tier_ = GetParam().make(bytes);
    return *tier_;
  }

  std::unique_ptr<Tier> tier_;
};

TEST_P(TierContract, ReservesDisjointAlignedExtentsUpToTheCapacity) {
  Tier& tier = make();
  const std::uint64_t step = tier.alignment_bytes();
  EXPECT_GE(tier.capacity_bytes(), capacity_bytes);
  std::uint64_t end = 0;
  for (const std::uint64_t size : {std::uint64_t{1}, step, step + 1, std::uint64_t{0}, 10 * step - 1}) {
    const Extent extent = tier.reserve(size);
    EXPECT_EQ(extent.offset_bytes % step, 0u);
    EXPECT_EQ(extent.size_bytes % step, 0u);
    EXPECT_GE(extent.size_bytes, size);
    EXPECT_GE(extent.offset_bytes, end);
    end = extent.offset_bytes + extent.size_bytes;
    EXPECT_EQ(tier.reserved_bytes(), end);
  }
  const std::uint64_t rest = tier.capacity_bytes() - end;
  EXPECT_EQ(error_of([&] { tier.reserve(rest + 1); }).code(), ErrorCode::out_of_budget);
  EXPECT_EQ(error_of([&] { tier.reserve(~std::uint64_t{0}); }).code(), ErrorCode::out_of_budget);
  EXPECT_EQ(tier.reserved_bytes(), end);
  EXPECT_EQ(tier.reserve(rest).size_bytes, rest);
  EXPECT_EQ(tier.reserved_bytes(), tier.capacity_bytes());
  EXPECT_EQ(error_of([&] { tier.reserve(1); }).code(), ErrorCode::out_of_budget);
}

TEST_P(TierContract, GivesBackWhatWasStored) {
  Tier& tier = make();
  const std::size_t step = tier.alignment_bytes();
  std::vector<std::size_t> sizes = {step, 3 * step, 64 << 10, (64 << 10) + step, 1 << 20, (1 << 20) - step};
  std::vector<Extent> extents;
  for (const std::size_t size : sizes) extents.push_back(tier.reserve(size));
  const offload::PrivateMemory source(capacity_bytes), target(capacity_bytes);
  fill_random(source.bytes(), 1);
  for (std::size_t i = 0; i < sizes.size(); ++i)
    tier.store(extents[i], 0, source.bytes().subspan(i * step, sizes[i])).wait();
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const auto loaded = target.bytes().first(sizes[i]);
    tier.load(extents[i], 0, loaded).wait();
    EXPECT_TRUE(same_bytes(loaded, source.bytes().subspan(i * step, sizes[i]))) << sizes[i];
  }
}

TEST_P(TierContract, LoadsAndStoresPartsOfAnExtent) {
  Tier& tier = make();
  const std::size_t step = tier.alignment_bytes(), count = 64;
  tier.reserve(step);
  const Extent extent = tier.reserve(count * step);
  tier.reserve(step);
  const offload::PrivateMemory source(count * step), target(count * step);
  fill_random(source.bytes(), 2);
  tier.store(extent, 0, source.bytes().first(count * step)).wait();
  for (std::size_t first = 0; first < count; first += 7) {
    for (std::size_t size = 0; first + size <= count; size += 5) {
      const auto part = target.bytes().first(size * step);
      tier.load(extent, first * step, part).wait();
      ASSERT_TRUE(same_bytes(part, source.bytes().subspan(first * step, size * step))) << first << " " << size;
    }
  }
  fill_random(source.bytes().subspan(5 * step, 2 * step), 3);
  tier.store(extent, 5 * step, source.bytes().subspan(5 * step, 2 * step)).wait();
  tier.load(extent, 0, target.bytes().first(count * step)).wait();
  EXPECT_TRUE(same_bytes(target.bytes().first(count * step), source.bytes().first(count * step)));
}

TEST_P(TierContract, ManyAreUnderWayAtOnce) {
  Tier& tier = make();
  const std::size_t size = 16 << 10, count = capacity_bytes / size;
  const offload::PrivateMemory source(capacity_bytes), target(capacity_bytes);
  fill_random(source.bytes(), 4);
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < count; ++i) extents.push_back(tier.reserve(size));
  std::vector<Event> events;
  for (std::size_t i = 0; i < count; ++i)
    events.push_back(tier.store(extents[i], 0, source.bytes().subspan(i * size, size)));
  for (std::size_t i = count; i-- > 0;) {
    events[i].wait();
    events[i] = tier.load(extents[i], 0, target.bytes().subspan(i * size, size));
  }
  for (const Event& event : events) event.wait();
  EXPECT_TRUE(same_bytes(source.bytes(), target.bytes()));
}

TEST_P(TierContract, ThreadsUseItAtOnce) {
  Tier& tier = make();
  constexpr std::size_t thread_count = 4, size = 128 << 10, slot_count = 4;
  std::vector<std::vector<Extent>> extents(thread_count);
  for (auto& of_thread : extents)
    for (std::size_t i = 0; i < slot_count; ++i) of_thread.push_back(tier.reserve(size));
  std::atomic<int> wrong_count{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      const offload::PrivateMemory source(slot_count * size), target(slot_count * size);
      for (std::size_t round = 0; round < 6; ++round) {
        fill_random(source.bytes(), 100 * t + round);
        std::vector<Event> events(slot_count);
        for (std::size_t i = 0; i < slot_count; ++i)
          events[i] = tier.store(extents[t][i], 0, source.bytes().subspan(i * size, size));
        for (std::size_t i = 0; i < slot_count; ++i) {
          events[i].wait();
          events[i] = tier.load(extents[t][i], 0, target.bytes().subspan(i * size, size));
        }
        for (const Event& event : events) event.wait();
        wrong_count += !same_bytes(source.bytes(), target.bytes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong_count, 0);
}

TEST_P(TierContract, RefusesWhatIsOutsideOrMisaligned) {
  Tier& tier = make();
  const std::size_t step = tier.alignment_bytes();
  const Extent extent = tier.reserve(4 * step);
  const offload::PrivateMemory memory(8 * step);
  const auto bytes = memory.bytes();
  const auto refuses = [&](const Extent& of, std::uint64_t first, std::span<std::byte> span) {
    EXPECT_EQ(error_of([&] { tier.load(of, first, span); }).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error_of([&] { tier.store(of, first, span); }).code(), ErrorCode::invalid_argument);
  };
  refuses(extent, 0, bytes.first(5 * step));
  refuses(extent, 4 * step, bytes.first(step));
  refuses(extent, ~std::uint64_t{0} - step + 1, bytes.first(step));
  refuses({4 * step, step}, 0, bytes.first(step));  // never reserved
  refuses({~std::uint64_t{0} - step + 1, 2 * step}, 0, bytes.first(step));
  refuses(extent, 0, bytes.first(step - 1));
  refuses(extent, 1, bytes.first(step));
  refuses(extent, 0, bytes.subspan(1, step));
  EXPECT_EQ(tier.counters().loaded_bytes + tier.counters().stored_bytes, 0u);
  tier.store(extent, 0, bytes.first(4 * step)).wait();
}

TEST_P(TierContract, AnEmptySpanIsDoneAtOnce) {
  Tier& tier = make();
  const Extent extent = tier.reserve(tier.alignment_bytes());
  EXPECT_TRUE(tier.load(extent, 0, {}).ready());
  EXPECT_TRUE(tier.store(extent, extent.size_bytes, {}).ready());
}

TEST_P(TierContract, CountsBytesAndTime) {
  Tier& tier = make();
  const std::size_t size = 256 << 10;
  const Extent extent = tier.reserve(size);
  const offload::PrivateMemory memory(size);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) tier.store(extent, 0, memory.bytes()).wait();
  tier.load(extent, 0, memory.bytes().first(size / 2)).wait();
  const TierCounters counters = tier.counters();
  const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_EQ(counters.stored_bytes, 3 * size);
  EXPECT_EQ(counters.loaded_bytes, size / 2);
  EXPECT_GT(counters.busy_s, 0);
  EXPECT_LE(counters.busy_s, wall_s);
}

TEST_P(TierContract, MemoryIsInPlaceOrNotThere) {
  Tier& tier = make();
  const std::size_t step = tier.alignment_bytes();
  tier.reserve(step);
  const Extent extent = tier.reserve(2 * step);
  if (tier.kind() == TierKind::nvme) {
    EXPECT_TRUE(tier.memory(extent).empty());
    return;
  }
  ASSERT_EQ(tier.memory(extent).size(), 2 * step);
  const offload::PrivateMemory memory(2 * step);
  const auto bytes = memory.bytes().first(2 * step);
  fill_random(bytes, 5);
  tier.store(extent, 0, bytes).wait();
  EXPECT_TRUE(same_bytes(tier.memory(extent), bytes));
  fill_random(tier.memory(extent), 6);
  tier.load(extent, 0, bytes).wait();
  EXPECT_TRUE(same_bytes(tier.memory(extent), bytes));
}

// Events are values: they may be asked after the tier is gone. What was under way has ended by then, well or not.
TEST_P(TierContract, EndsWithRequestsUnderWay) {
  Tier& tier = make();
  const std::size_t size = 64 << 10, count = 32;
  const Extent extent = tier.reserve(size * count);
  const offload::PrivateMemory memory(size * count);
  std::vector<Event> events;
  for (std::size_t i = 0; i < count; ++i)
    events.push_back(tier.load(extent, i * size, memory.bytes().subspan(i * size, size)));
  tier_.reset();
  fill_random(memory.bytes(), 7);
  const std::vector<std::byte> expected(memory.bytes().begin(), memory.bytes().end());
  std::size_t done_count = 0;
  for (const Event& event : events) {
    ASSERT_TRUE(event.ready());
    try {
      event.wait();
      ++done_count;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
    }
  }
  EXPECT_LE(done_count, count);
  EXPECT_TRUE(same_bytes(memory.bytes(), expected));
}

}  // namespace strata::test
