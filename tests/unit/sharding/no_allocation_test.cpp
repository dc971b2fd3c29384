// Collectives take no memory after the first call of each kind.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

#include <strata/rendezvous.h>

namespace {

std::atomic<bool> counting{false};
std::atomic<int> allocation_count{0};

}  // namespace

void* operator new(std::size_t bytes) {
  if (counting.load()) allocation_count.fetch_add(1);
  if (void* at = std::malloc(bytes == 0 ? 1 : bytes)) return at;
  throw std::bad_alloc();
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }

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
  auto world = local_world(size);
  std::vector<std::thread> threads;
  for (auto& communicator : world) {
    threads.emplace_back([&c = *communicator] {
      const ExchangeBlock common = c.allocate(count * 4 * size, Sharing::common);
      const ExchangeBlock block = c.allocate(count * 4 * size, Sharing::per_rank);
      std::vector<float> shard(count);
      std::vector<double> norms(count / 256);
      each_collective(c, common, block, shard, norms);
      c.barrier({});
      counting = true;
      for (int round = 0; round < 50; ++round) each_collective(c, common, block, shard, norms);
      c.barrier({});
      counting = false;
      c.barrier({});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocation_count.load(), 0);
  counting = true;
  ::operator delete(::operator new(8));
  counting = false;
  EXPECT_EQ(allocation_count.load(), 1) << "allocations are counted at all";
}

}  // namespace
}  // namespace strata
