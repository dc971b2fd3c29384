// Hundreds of disks, each with faults of its own seed: what comes back are the right bits or the right error, in time.
// STRATA_DISK_SEED=N runs that seed alone; STRATA_TEST_SHARE=8 an eighth of them.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "offload/nvme_tier.h"
#include "offload/private_memory.h"
#include "offload/sealed_store.h"
#include "support/faulty_block_io.h"
#include "support/fresh_folder.h"
#include "support/matrix_share.h"
#include "support/same_bytes.h"

namespace strata::test {
namespace {

using offload::BlockIo;
using offload::Copies;
using offload::NvmeTier;
using offload::PrivateMemory;
using offload::SealedStore;

constexpr std::uint64_t seed_count = 500;
constexpr std::size_t thread_count = 2, items_per_thread = 4, round_count = 6;
constexpr std::size_t file_bytes = 1 << 20;
constexpr auto wait_max = std::chrono::seconds(20);  // of any event; far above what a run takes

struct Outcome {
  std::uint64_t io_error_count = 0, corruption_count = 0, right_count = 0;
  std::string wrong;  // the first thing that should not be
};

// One thread's share: stores new versions of its items, all at once, then loads and checks them.
class Worker {
 public:
  Worker(SealedStore& store, std::vector<std::size_t> items, std::uint64_t seed)
      : store_(store), items_(std::move(items)), random_(seed) {
    for (const std::size_t item : items_) {
      sources_.emplace_back(store.padded_bytes(item));
      targets_.emplace_back(store.padded_bytes(item));
    }
  }

  void run() {
    for (std::size_t round = 0; round < round_count && outcome.wrong.empty(); ++round) {
      std::vector<Event> events(items_.size());
      std::vector<bool> is_stored(items_.size());
      for (std::size_t i = 0; i < items_.size(); ++i) {
        fill_random(sources_[i].bytes(), random_());
        events[i] = store_.store(items_[i], sources_[i].bytes());
      }
      for (std::size_t i = 0; i < items_.size(); ++i) is_stored[i] = ends_well(events[i]);
      for (std::size_t i = 0; i < items_.size(); ++i) {
        if (is_stored[i]) events[i] = store_.load(items_[i], targets_[i].bytes());
      }
      for (std::size_t i = 0; i < items_.size(); ++i) {
        if (is_stored[i] && ends_well(events[i])) check(i);
      }
    }
  }

  Outcome outcome;

 private:
  bool ends_well(const Event& event) {
    try {
      if (event.wait_for(wait_max)) return true;
      outcome.wrong = "an event did not come";
    } catch (const Error& error) {
      ++outcome.io_error_count;
      if (error.code() != ErrorCode::io) outcome.wrong = error.what();
    }
    return false;
  }

  void check(std::size_t i) {
    const bool is_right = same_bytes(sources_[i].bytes(), targets_[i].bytes());
    try {
      store_.verify(items_[i], targets_[i].bytes());
      if (!is_right) outcome.wrong = "wrong bytes were taken for right";
      ++outcome.right_count;
    } catch (const Error& error) {
      ++outcome.corruption_count;
      if (is_right) outcome.wrong = fmt::format("right bytes were refused: {}", error.what());
    }
  }

  SealedStore& store_;
  const std::vector<std::size_t> items_;
  std::mt19937_64 random_;
  std::vector<PrivateMemory> sources_, targets_;
};

Outcome run_seed(std::uint64_t seed, const FreshFolder& folder, FaultLog& total) {
  std::mt19937_64 random(seed);
  const auto log = std::make_shared<FaultLog>();
  offload::DiskOptions options;
  options.dirs.assign(1 + random() % 3, folder.path());
  options.capacity_bytes = file_bytes;
  options.backend = IoBackend::threads;
  options.block_bytes = std::uint64_t{4096} << random() % 4;
  options.inflight_bytes = std::uint64_t{4096} << random() % 6;
  options.request_count = 1 + random() % 8;
  const NvmeTier::BlockIoWrap wrap = [&](std::unique_ptr<BlockIo>) {
    offload::BlockIoSetup setup;
    setup.fds.resize(options.dirs.size());
    return std::make_unique<FaultyBlockIo>(seed, fault_rates_of(seed), make_memory_io(setup, 2 * file_bytes), log);
  };
  Outcome sum;
  {
    NvmeTier tier(options, wrap);
    SealedStore store(tier);
    std::vector<std::unique_ptr<Worker>> workers;
    for (std::uint32_t t = 0; t < thread_count; ++t) {
      std::vector<std::size_t> items;
      for (std::uint32_t i = 0; i < items_per_thread; ++i)
        items.push_back(store.add({offload::Content::record, t, i}, 4096 * (1 + random() % 8),
                                  random() % 2 == 0 ? Copies::one : Copies::two));
      workers.push_back(std::make_unique<Worker>(store, items, random()));
    }
    std::vector<std::thread> threads;
    for (auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& worker : workers) {
      sum.io_error_count += worker->outcome.io_error_count;
      sum.corruption_count += worker->outcome.corruption_count;
      sum.right_count += worker->outcome.right_count;
      if (sum.wrong.empty()) sum.wrong = worker->outcome.wrong;
    }
  }
  if (log->hard_count == 0 && sum.io_error_count > 0) sum.wrong = "an I/O error without a cause";
  if (log->flip_count == 0 && sum.corruption_count > 0) sum.wrong = "corruption without a cause";
  if (sum.corruption_count > log->flip_count) sum.wrong = "more corruption than flips";
  total.short_count += log->short_count;
  total.passing_count += log->passing_count;
  total.delay_count += log->delay_count;
  total.hard_count += log->hard_count;
  total.flip_count += log->flip_count;
  return sum;
}

TEST(DiskSeeds, RightBitsOrTheRightError) {
  const char* const only = std::getenv("STRATA_DISK_SEED");
  const std::uint64_t first = only ? std::strtoull(only, nullptr, 10) : 0;
  const std::uint64_t end = only ? first + 1 : seed_count;
  const FreshFolder folder;
  FaultLog total;
  Outcome sum;
  std::uint64_t run_count = 0;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    if (!only && !in_matrix_share(fmt::format("{} is the seed of a disk", seed))) continue;
    ++run_count;
    const Outcome outcome = run_seed(seed, folder, total);
    ASSERT_EQ(outcome.wrong, "") << "again: STRATA_DISK_SEED=" << seed << " disk_fault_test --gtest_filter=DiskSeeds.*";
    sum.io_error_count += outcome.io_error_count;
    sum.corruption_count += outcome.corruption_count;
    sum.right_count += outcome.right_count;
  }
  if (only) return;
  // Every kind happened, and most went well all the same.
  EXPECT_GT(run_count, 0u);
  EXPECT_GT(total.short_count, run_count);
  EXPECT_GT(total.passing_count, run_count);
  EXPECT_GT(total.delay_count, run_count);
  EXPECT_GT(total.hard_count, 0u);
  EXPECT_GT(total.flip_count, 0u);
  EXPECT_GT(sum.io_error_count, 0u);
  EXPECT_GT(sum.corruption_count, 0u);
  EXPECT_GT(sum.right_count, run_count * thread_count * items_per_thread * round_count / 2);
}

}  // namespace
}  // namespace strata::test
