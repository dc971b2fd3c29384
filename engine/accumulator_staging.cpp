#include "engine/accumulator_staging.h"

#include <algorithm>

namespace strata::engine {

AccumulatorStaging::AccumulatorStaging(EngineContext& context)
    : context_(context), buffers_(context.needs.spill.accumulator_staging_count) {
  const SpillNeeds& spill = context.needs.spill;
  const std::size_t begin = spill.slots_bytes() + spill.published_staging_count * spill.published_staging_bytes;
  std::size_t most_chunks = 0;
  for (std::size_t unit = 0; unit < context.states.size(); ++unit) {
    if (context.states[unit].accumulator_on_nvme) most_chunks = std::max(most_chunks, chunks_of(unit));
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].memory = context.memory.io.bytes().data() + begin + i * spill.accumulator_staging_bytes;
    buffers_[i].transfers.resize(most_chunks);
  }
}

std::size_t AccumulatorStaging::chunks_of(std::size_t unit) const {
  const std::size_t count = context_.layouts[unit].trainable().shard_count;
  return (count + context_.plan.chunk_count - 1) / context_.plan.chunk_count;
}

std::span<float> AccumulatorStaging::open(std::size_t unit, ReduceMode mode) {
  Buffer& buffer = buffers_[opened_++ % buffers_.size()];
  unit_ = unit;
  for (const Event& transfer : buffer.transfers) context_.wait_for_disk(transfer);
  const UnitState& state = context_.states[unit];
  const std::size_t count = context_.layouts[unit].trainable().shard_count;
  if (mode == ReduceMode::add) {
    offload::SealedStore& sealed = *context_.memory.sealed;
    const std::size_t chunk_bytes = context_.plan.chunk_count * sizeof(float);
    for (std::size_t c = 0; c < chunks_of(unit); ++c) {
      const std::size_t item = state.accumulator_items + c;
      context_.wait_for_disk(context_.memory.item_stored[item]);
      buffer.transfers[c] = sealed.load(item, {buffer.memory + c * chunk_bytes, sealed.padded_bytes(item)});
    }
    for (std::size_t c = 0; c < chunks_of(unit); ++c) {
      const std::size_t item = state.accumulator_items + c;
      context_.wait_for_disk(buffer.transfers[c]);
      sealed.verify(item, {buffer.memory + c * chunk_bytes, sealed.padded_bytes(item)});
    }
  }
  return {reinterpret_cast<float*>(buffer.memory), count};
}

void AccumulatorStaging::close() {
  Buffer& buffer = buffers_[(opened_ - 1) % buffers_.size()];
  offload::SealedStore& sealed = *context_.memory.sealed;
  const std::size_t chunk_bytes = context_.plan.chunk_count * sizeof(float);
  for (std::size_t c = 0; c < chunks_of(unit_); ++c) {
    const std::size_t item = context_.states[unit_].accumulator_items + c;
    buffer.transfers[c] = sealed.store(item, {buffer.memory + c * chunk_bytes, sealed.padded_bytes(item)});
    context_.memory.item_stored[item] = buffer.transfers[c];
  }
}

}  // namespace strata::engine
