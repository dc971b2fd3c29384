// Loads and stores take no memory from the heap once the tier is there.
#include <gtest/gtest.h>

#include <vector>

#include "offload/sealed_store.h"
#include "support/allocation_count.h"
#include "support/fresh_folder.h"
#include "support/small_disk.h"

namespace strata::test {
namespace {

class DiskAllocation : public testing::TestWithParam<IoBackend> {};

TEST_P(DiskAllocation, NoneAfterTheStart) {
  const FreshFolder folder;
  offload::DiskOptions options = small_disk({folder.path(), folder.path()}, GetParam());
  options.request_count = 8;
  offload::NvmeTier tier(options);
  offload::SealedStore store(tier);
  constexpr std::size_t count = 8, size = 48 << 10;
  const offload::PrivateMemory memory(count * size);
  for (std::uint32_t i = 0; i < count; ++i) store.add({offload::Content::record, 0, i}, size, offload::Copies::two);
  std::vector<Event> events(count);
  const auto round = [&] {
    for (std::size_t i = 0; i < count; ++i) events[i] = store.store(i, memory.bytes().subspan(i * size, size));
    for (std::size_t i = 0; i < count; ++i) {
      events[i].wait();
      events[i] = store.load(i, memory.bytes().subspan(i * size, size));
    }
    for (std::size_t i = 0; i < count; ++i) store.finish_load(i, events[i], memory.bytes().subspan(i * size, size));
  };
  round();
  start_counting_allocations();
  for (int i = 0; i < 20; ++i) round();
  EXPECT_EQ(stop_counting_allocations(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Backends, DiskAllocation, testing::Values(IoBackend::automatic, IoBackend::threads));

}  // namespace
}  // namespace strata::test
