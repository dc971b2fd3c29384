#include "sharding/flat_layout.h"

#include <strata/detail/assert.h>

namespace strata::sharding {

namespace {

std::size_t round_up(std::size_t count, std::size_t granule) { return (count + granule - 1) / granule * granule; }

std::size_t shard_count_of(std::size_t used_count, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t granule = used_count >= large_part_count ? large_granule_count : norm_leaf_count;
  return round_up((used_count + ranks - 1) / ranks, granule);
}

}  // namespace

FlatLayout::FlatLayout(const Unit& unit, int world_size) : world_size_(world_size), places_(unit.tensors.size()) {
  STRATA_ASSERT(world_size >= 1);
  trainable_ = lay_out(unit, Training::trainable);
  frozen_ = lay_out(unit, Training::frozen);
  frozen_begin_ =
      frozen_.full_count == 0 ? trainable_.full_count : round_up(trainable_.full_count, large_granule_count);

  std::size_t covered = 0;
  for (const std::uint32_t tensor : trainable_.tensors) {
    if (covered < places_[tensor].offset) gaps_.push_back({covered, places_[tensor].offset});
    covered = end_of(tensor);
  }
  if (covered < trainable_.full_count) gaps_.push_back({covered, trainable_.full_count});
}

FlatPart FlatLayout::lay_out(const Unit& unit, Training training) {
  FlatPart part;
  for (std::size_t i = 0; i < unit.tensors.size(); ++i) {
    if (unit.tensors[i].training != training) continue;
    const std::size_t count = unit.tensors[i].element_count();
    const std::size_t offset = round_up(part.used_count, tensor_alignment_count);
    places_[i] = {offset, count, training};
    if (count == 0) continue;
    part.tensors.push_back(static_cast<std::uint32_t>(i));
    part.used_count = offset + count;
  }
  part.shard_count = shard_count_of(part.used_count, world_size_);
  part.full_count = part.shard_count * static_cast<std::size_t>(world_size_);
  return part;
}

FlatRange FlatLayout::leaves(int rank) const {
  const FlatRange elements = shard(Training::trainable, rank);
  const std::size_t total = trainable_.leaf_count();
  return {std::min(elements.begin / norm_leaf_count, total), std::min(elements.end / norm_leaf_count, total)};
}

}  // namespace strata::sharding
