// Collectives take no memory after the first call of each kind.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include <strata/rendezvous.h>

#include "support/allocation_count.h"

namespace strata {
namespace {

void each_collective(Communicator& c, const ExchangeBlock& common, const ExchangeBlock& block, std::span<float> shard,
                     std::span<double> norms) {
  c.all_gather(shard.data(), common.bytes().data(), shard.size(), Dtype::f32, {});
  c.all_gather(shard.data(), block.bytes().data(), shard.size(), Dtype::f32, {});
  c.reduce_scatter(block.bytes().data(), shard.size(), Dtype::f32, {.accumulator = shard, .leaf_norms = norms}, {});
  c.all_reduce(norms, {});
  c.barrier({});
}

TEST(NoAllocation, InCollectivesAfterTheFirst) {
  constexpr int size = 3;
  constexpr std::size_t count = 4096;
  std::uint64_t counted = 0;
  auto world = local_world(size);
  std::vector<std::thread> threads;
  for (auto& communicator : world) {
    threads.emplace_back([&c = *communicator, &counted] {
      const ExchangeBlock common = c.allocate(count * 4 * size, Sharing::common);
      const ExchangeBlock block = c.allocate(count * 4 * size, Sharing::per_rank);
      std::vector<float> shard(count);
      std::vector<double> norms(count / 256);
      each_collective(c, common, block, shard, norms);
      c.barrier({});
      if (c.rank() == 0) test::start_counting_allocations();
      c.barrier({});
      for (int round = 0; round < 50; ++round) each_collective(c, common, block, shard, norms);
      c.barrier({});
      if (c.rank() == 0) counted = test::stop_counting_allocations();
      c.barrier({});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted, 0u);
  test::start_counting_allocations();
  ::operator delete(::operator new(8));
  EXPECT_EQ(test::stop_counting_allocations(), 1u) << "allocations are counted at all";
}

}  // namespace
}  // namespace strata
