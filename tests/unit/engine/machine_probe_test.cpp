#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include <strata/error.h>
#include <strata/machine_speed.h>
#include <strata/rendezvous.h>

#include "support/fresh_folder.h"

namespace strata {
namespace {

using ::testing::HasSubstr;

void expect_memory_rates(const MachineSpeed& speed) {
  for (const double rate :
       {speed.memory_bytes_per_s, speed.gather_bytes_per_s, speed.reduce_bytes_per_s, speed.seal_bytes_per_s}) {
    EXPECT_GT(rate, 1e7);
    EXPECT_LT(rate, 1e13);
  }
  EXPECT_GE(speed.call_overhead_s, 0);
  EXPECT_LT(speed.call_overhead_s, 0.1);
}

TEST(MachineProbe, MeasuresMemoryAndNoDiskWithoutADirectory) {
  const auto world = solo_world();
  const MachineSpeed speed = probe_machine(*world, {});
  expect_memory_rates(speed);
  EXPECT_EQ(speed.disk_read_bytes_per_s, 0);
  EXPECT_EQ(speed.disk_write_bytes_per_s, 0);
  EXPECT_EQ(speed.disk_both_bytes_per_s, 0);
}

TEST(MachineProbe, AllRanksGetTheSame) {
  const test::FreshFolder folder;
  auto ranks = local_world(3);
  std::vector<MachineSpeed> speeds(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Options options;
      options.nvme_dirs = {folder.path()};
      speeds[rank] = probe_machine(*ranks[rank], options);
    });
  }
  for (std::thread& thread : threads) thread.join();
  expect_memory_rates(speeds[0]);
  EXPECT_GT(speeds[0].disk_read_bytes_per_s, 1e5);
  EXPECT_GT(speeds[0].disk_write_bytes_per_s, 1e5);
  EXPECT_GT(speeds[0].disk_both_bytes_per_s, 1e5);
  for (const MachineSpeed& speed : speeds) {
    EXPECT_EQ(speed.memory_bytes_per_s, speeds[0].memory_bytes_per_s);
    EXPECT_EQ(speed.reduce_bytes_per_s, speeds[0].reduce_bytes_per_s);
    EXPECT_EQ(speed.disk_both_bytes_per_s, speeds[0].disk_both_bytes_per_s);
    EXPECT_EQ(speed.call_overhead_s, speeds[0].call_overhead_s);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(MachineProbe, ARankWithoutDirectoryTakesPart) {
  const test::FreshFolder folder;
  auto ranks = local_world(2);
  MachineSpeed with, without;
  std::thread other([&] { without = probe_machine(*ranks[1], {}); });
  Options options;
  options.nvme_dirs = {folder.path()};
  with = probe_machine(*ranks[0], options);
  other.join();
  EXPECT_GT(with.disk_read_bytes_per_s, 0);
  EXPECT_EQ(without.disk_read_bytes_per_s, with.disk_read_bytes_per_s);
}

TEST(MachineProbe, ADirectoryThatIsNoneIsNamed) {
  Options options;
  options.nvme_dirs = {"/nowhere/at/all"};
  const auto world = solo_world();
  try {
    probe_machine(*world, options);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/at/all"));
  }
}

}  // namespace
}  // namespace strata
