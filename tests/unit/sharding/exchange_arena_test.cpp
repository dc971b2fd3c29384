#include <gtest/gtest.h>
#include <sys/mman.h>

#include <memory>

#include "sharding/exchange_arena.h"

namespace strata::sharding {
namespace {

ExchangeBlock take(ExchangeArena& arena, std::size_t bytes) {
  EXPECT_EQ(arena.prepare(bytes, Sharing::common, [] {}), 0);
  return arena.publish();
}

// Where one block ends the next may begin: the address is the next one's.
TEST(ExchangeArena, a_block_behind_another_is_found_as_itself) {
  const auto segment = std::make_shared<ExchangeSegment>(make_segment_file());
  ExchangeArena arena(segment, 0, 1, 0);
  void* const above = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(above, MAP_FAILED);
  const ExchangeBlock first = take(arena, page_bytes);
  munmap(above, page_bytes);
  const ExchangeBlock second = take(arena, page_bytes);
  if (first.bytes().data() + page_bytes != second.bytes().data()) {
    GTEST_SKIP() << "the system did not map the second block right behind the first";
  }
  const auto place = arena.find(second.bytes().data());
  ASSERT_TRUE(place);
  EXPECT_EQ(place->base, second.bytes().data());
  EXPECT_EQ(place->offset_bytes, 0u);
  EXPECT_EQ(arena.find(first.bytes().data())->base, first.bytes().data());
  EXPECT_EQ(arena.find(second.bytes().data() + page_bytes)->offset_bytes, page_bytes) << "an end, for nothing";
}

TEST(ExchangeArena, what_is_released_takes_no_pages) {
  const auto segment = std::make_shared<ExchangeSegment>(make_segment_file());
  ExchangeArena arena(segment, 0, 1, 0);
  const ExchangeBlock block = take(arena, 8 * page_bytes);
  block.bytes()[5 * page_bytes] = std::byte{1};
  arena.release(*arena.find(block.bytes().data()));
  EXPECT_EQ(block.bytes()[5 * page_bytes], std::byte{0});  // a new page in the place of the one given back
}

}  // namespace
}  // namespace strata::sharding
