#include "sharding/flat_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata::sharding {
namespace {

Tensor tensor(std::vector<std::int64_t> shape, Training training = Training::trainable) {
  return Tensor{.name = "t", .shape = std::move(shape), .training = training};
}

Unit unit_of(std::vector<Tensor> tensors) { return Unit{.name = "unit", .tensors = std::move(tensors)}; }

Unit mixed_unit() {
  return unit_of({tensor({7, 11}), tensor({5}, Training::frozen), tensor({}), tensor({0, 3}), tensor({1000}),
                  tensor({33}, Training::frozen), tensor({31})});
}

TEST(FlatLayout, OffsetsOfTensorsDoNotDependOnTheWorldSize) {
  const Unit unit = mixed_unit();
  const FlatLayout one(unit, 1);
  for (int size = 2; size <= 9; ++size) {
    const FlatLayout layout(unit, size);
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) EXPECT_EQ(layout.place(i).offset, one.place(i).offset);
    EXPECT_EQ(layout.trainable().leaf_count(), one.trainable().leaf_count());
    EXPECT_EQ(layout.frozen().used_count, one.frozen().used_count);
  }
}

TEST(FlatLayout, TensorsAreAlignedAndDisjointAndShardsAreWholeLeaves) {
  const Unit unit = mixed_unit();
  for (int size = 1; size <= 7; ++size) {
    const FlatLayout layout(unit, size);
    std::vector<int> owners(layout.whole_count(), 0);
    for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
      EXPECT_EQ(layout.place(i).offset % tensor_alignment_count, 0u);
      EXPECT_EQ(layout.place(i).element_count, unit.tensors[i].element_count());
      for (std::size_t k = 0; k < layout.place(i).element_count; ++k) ++owners[layout.whole_offset(i) + k];
    }
    for (const FlatRange& gap : layout.gaps()) {
      for (std::size_t k = gap.begin; k < gap.end; ++k) ++owners[k];
    }
    for (std::size_t k = 0; k < layout.trainable().full_count; ++k) EXPECT_EQ(owners[k], 1) << "element " << k;
    EXPECT_EQ(layout.trainable().shard_count % norm_leaf_count, 0u);
    EXPECT_EQ(layout.trainable().shard_count * static_cast<std::size_t>(size), layout.trainable().full_count);
    EXPECT_EQ(layout.frozen_begin() % large_granule_count, 0u);
  }
}

TEST(FlatLayout, RangesMeetEachElementOfEachTensorOnce) {
  const Unit unit = mixed_unit();
  for (const Training training : {Training::trainable, Training::frozen}) {
    for (const std::size_t chunk : {1u, 13u, 64u, 256u, 5000u}) {
      const FlatLayout layout(unit, 3);
      std::vector<std::size_t> next(unit.tensors.size(), 0);
      const std::size_t full = layout.part(training).full_count;
      for (std::size_t begin = 0; begin < full; begin += chunk) {
        const std::size_t end = std::min(begin + chunk, full);
        layout.ranges_of(training, {begin, end},
                         [&](std::size_t t, std::size_t first, std::size_t flat, std::size_t count) {
                           EXPECT_EQ(first, next[t]);
                           EXPECT_EQ(flat, layout.place(t).offset + first);
                           EXPECT_GE(flat, begin);
                           EXPECT_LE(flat + count, end);
                           EXPECT_GT(count, 0u);
                           next[t] += count;
                         });
      }
      for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
        EXPECT_EQ(next[i], unit.tensors[i].training == training ? layout.place(i).element_count : 0) << "tensor " << i;
      }
    }
  }
}

TEST(FlatLayout, LeavesOfRanksFollowEachOtherToTheEnd) {
  for (const std::int64_t count : {1, 255, 256, 257, 100'000}) {
    for (int size = 1; size <= 7; ++size) {
      const FlatLayout layout(unit_of({tensor({count})}), size);
      std::size_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_EQ(layout.leaves(rank).begin, next);
        next = layout.leaves(rank).end;
      }
      EXPECT_EQ(next, layout.trainable().leaf_count());
    }
  }
}

TEST(FlatLayout, LargePartsHaveShardsOfWholePages) {
  const FlatLayout large(unit_of({tensor({65'536})}), 3);
  EXPECT_EQ(large.trainable().shard_count, 22'528u);
  const FlatLayout small(unit_of({tensor({65'535})}), 3);
  EXPECT_EQ(small.trainable().shard_count, 22'016u);
}

TEST(FlatLayout, UnitsWithoutElementsHaveNoShards) {
  const std::vector<Unit> units{unit_of({}), unit_of({tensor({0})}), unit_of({tensor({4, 0}, Training::frozen)})};
  for (const Unit& unit : units) {
    const FlatLayout layout(unit, 4);
    EXPECT_EQ(layout.whole_count(), 0u);
    EXPECT_EQ(layout.trainable().shard_count, 0u);
    EXPECT_TRUE(layout.gaps().empty());
    EXPECT_EQ(layout.leaves(3).count(), 0u);
  }
}

TEST(FlatLayout, FewerElementsThanRanks) {
  const FlatLayout layout(unit_of({tensor({}), tensor({1}, Training::frozen)}), 7);
  EXPECT_EQ(layout.trainable().shard_count, 256u);
  EXPECT_EQ(layout.trainable().full_count, 7 * 256u);
  EXPECT_EQ(layout.shard(Training::trainable, 6).begin, 6 * 256u);
  EXPECT_EQ(layout.frozen().shard_count, 256u);
  EXPECT_EQ(layout.leaves(0).count(), 1u);
  EXPECT_EQ(layout.leaves(1).count(), 0u);
}

}  // namespace
}  // namespace strata::sharding
