#include "engine/shard_loader.h"

#include <algorithm>

#include <strata/detail/assert.h>

namespace strata::engine {

ShardLoader::ShardLoader(EngineContext& context)
    : context_(context), buffers_(context.needs.spill.published_staging_count) {
  const SpillNeeds& spill = context.needs.spill;
  std::size_t most_items = 0;
  for (std::size_t unit = 0; unit < context.states.size(); ++unit) {
    if (context.states[unit].published_on_nvme) {
      most_items = std::max(most_items, trainable_items(unit) + frozen_items(unit));
    }
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].memory = context.memory.io.bytes().data() + spill.slots_bytes() + i * spill.published_staging_bytes;
    buffers_[i].loads.resize(most_items);
  }
  wishes_.resize(context.lane_capacity());
}

std::size_t ShardLoader::trainable_items(std::size_t unit) const {
  const std::size_t count = context_.layouts[unit].trainable().shard_count;
  return (count + context_.plan.chunk_count - 1) / context_.plan.chunk_count;
}

std::size_t ShardLoader::frozen_items(std::size_t unit) const {
  const std::size_t count = context_.layouts[unit].frozen().shard_count;
  return (count + context_.plan.chunk_count - 1) / context_.plan.chunk_count;
}

template <typename Visit>
void ShardLoader::each_item(std::size_t unit, const Visit& visit) const {
  const UnitState& state = context_.states[unit];
  const std::size_t chunk_bytes = context_.plan.chunk_count * bytes_per_element(context_.options.dtype);
  for (std::size_t i = 0; i < trainable_items(unit); ++i) visit(state.published_items + i, i * chunk_bytes);
  const std::size_t frozen_begin = context_.frozen_shard_offset_bytes(unit);
  for (std::size_t i = 0; i < frozen_items(unit); ++i) visit(state.frozen_items + i, frozen_begin + i * chunk_bytes);
}

bool ShardLoader::stored(std::size_t unit) const {
  bool all = true;
  each_item(unit, [&](std::size_t item, std::size_t) { all = all && context_.memory.item_stored[item].ready(); });
  return all;
}

void ShardLoader::load(std::size_t unit, Buffer& buffer) {
  offload::SealedStore& sealed = *context_.memory.sealed;
  std::size_t i = 0;
  each_item(unit, [&](std::size_t item, std::size_t at) {
    context_.memory.item_stored[item].wait();  // throws if it has failed
    buffer.loads[i++] = sealed.load(item, {buffer.memory + at, sealed.padded_bytes(item)});
  });
}

void ShardLoader::verify(std::size_t unit, const Buffer& buffer) const {
  const offload::SealedStore& sealed = *context_.memory.sealed;
  each_item(unit, [&](std::size_t item, std::size_t at) {
    sealed.verify(item, {buffer.memory + at, sealed.padded_bytes(item)});
  });
}

void ShardLoader::want(std::size_t unit) {
  {
    std::lock_guard lock(mutex_);
    STRATA_ASSERT(wanted_ - given_back_ < wishes_.size());
    wishes_[wanted_ % wishes_.size()] = {unit, context_.states[unit].updated};
    ++wanted_;
  }
  pump();
}

void ShardLoader::pump() {
  std::lock_guard lock(mutex_);
  while (loading_ < wanted_ && loading_ - given_back_ < buffers_.size()) {
    const Wish& wish = wishes_[loading_ % wishes_.size()];
    if (!wish.updated.ready() || !stored(wish.unit)) return;
    wish.updated.wait();  // throws if it has failed
    load(wish.unit, buffers_[loading_ % buffers_.size()]);
    ++loading_;
  }
}

LoadedShard ShardLoader::take() {
  Wish wish;
  {
    std::lock_guard lock(mutex_);
    STRATA_ASSERT(taken_ == given_back_ && taken_ < wanted_);
    wish = wishes_[taken_ % wishes_.size()];
  }
  context_.comm_lane->wait_with_idle(wish.updated);
  each_item(wish.unit,
            [&](std::size_t item, std::size_t) { context_.wait_for_disk(context_.memory.item_stored[item]); });
  pump();
  std::size_t index = 0;
  {
    std::lock_guard lock(mutex_);
    STRATA_ASSERT(loading_ > taken_);
    index = taken_++ % buffers_.size();
  }
  const Buffer& buffer = buffers_[index];
  const std::size_t item_count = trainable_items(wish.unit) + frozen_items(wish.unit);
  for (std::size_t i = 0; i < item_count; ++i) context_.wait_for_disk(buffer.loads[i]);
  verify(wish.unit, buffer);
  return {buffer.memory, buffer.memory + context_.frozen_shard_offset_bytes(wish.unit)};
}

void ShardLoader::give_back() {
  {
    std::lock_guard lock(mutex_);
    ++given_back_;
  }
  pump();
}

}  // namespace strata::engine
