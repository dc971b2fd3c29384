#include "engine/chunk_stream.h"

#include <algorithm>

#include <strata/detail/assert.h>
#include "optim/split_master.h"

namespace strata::engine {

ChunkStream::ChunkStream(EngineContext& context) : context_(context), slots_(context.needs.spill.slot_count) {
  const SpillNeeds& spill = context.needs.spill;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].memory = context.memory.io.bytes().data() + i * spill.slot_bytes();
  }
  order_.reserve(context.units.size());
}

std::size_t ChunkStream::chunk_count_of(std::size_t unit) const {
  const std::size_t chunk = context_.plan.chunk_count;
  return (context_.states[unit].state.count() + chunk - 1) / chunk;
}

bool ChunkStream::record_on_nvme(std::size_t unit, std::size_t index) const {
  return context_.states[unit].record_homes.of(index) == TierKind::nvme;
}

bool ChunkStream::needs_slot(std::size_t unit, std::size_t index) const {
  const UnitState& state = context_.states[unit];
  return record_on_nvme(unit, index) || state.published_on_nvme || state.accumulator_on_nvme;
}

std::size_t ChunkStream::record_item(std::size_t unit, std::size_t index) const {
  const UnitState& state = context_.states[unit];
  return state.record_items + index - state.record_homes.device - state.record_homes.host;
}

bool ChunkStream::find_next(Position& position) const {
  for (; position.order < order_.size(); ++position.order, position.index = 0) {
    const std::size_t unit = order_[position.order];
    for (; position.index < chunk_count_of(unit); ++position.index) {
      if (needs_slot(unit, position.index)) return true;
    }
  }
  return false;
}

// What was preloaded is the beginning of this pass.
bool ChunkStream::adopt(std::span<const std::uint32_t> units) {
  const std::size_t count = std::min(order_.size(), loaded_to_.order + 1);
  return records_alone_ && taken_ == 0 && units.size() >= count &&
         std::equal(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(count), units.begin());
}

void ChunkStream::begin(Access access, std::span<const std::uint32_t> units) {
  // A pass that a caller's function left by an exception is over: what it had taken is not stored.
  const bool adopted = access != Access::write && adopt(units);
  if (!adopted) {
    discard();
    loaded_to_ = {};
    taken_ = loading_ = given_back_ = 0;
  }
  order_.assign(units.begin(), units.end());
  access_ = access;
  records_alone_ = false;
  if (adopted && access == Access::update) {
    for (std::uint64_t i = 0; i < loading_; ++i) load_gradient(slots_[i % slots_.size()]);
  }
  load_ahead();
}

void ChunkStream::preload(std::span<const std::uint32_t> units) {
  discard();
  loaded_to_ = {};
  taken_ = loading_ = given_back_ = 0;
  order_.assign(units.begin(), units.end());
  access_ = Access::update;
  records_alone_ = true;
  load_ahead();
}

// A slot must not be used for something else while the disk still writes into it.
void ChunkStream::discard() {
  for (std::uint64_t i = given_back_; i < loading_; ++i) {
    const Slot& slot = slots_[i % slots_.size()];
    slot.record_loaded.wait();
    slot.gradient_loaded.wait();
  }
}

void ChunkStream::load_ahead() {
  while (loading_ - given_back_ < slots_.size() && find_next(loaded_to_)) {
    Slot& slot = slots_[loading_ % slots_.size()];
    // A store is waited for when the next chunk of the pass has no slot yet, or while there is nothing else to do.
    const bool awaited = loading_ == taken_ || records_alone_;
    if (!awaited && !(slot.record_stored.ready() && slot.published_stored.ready())) return;
    context_.update_disk_waits.wait(slot.record_stored);
    context_.update_disk_waits.wait(slot.published_stored);
    slot.unit = order_[loaded_to_.order];
    slot.index = loaded_to_.index++;
    load(slot);
    ++loading_;
  }
}

void ChunkStream::load(Slot& slot) {
  slot.record_loaded = slot.gradient_loaded = {};
  if (access_ != Access::write && record_on_nvme(slot.unit, slot.index)) {
    const std::size_t item = record_item(slot.unit, slot.index);
    offload::SealedStore& sealed = *context_.memory.sealed;
    context_.update_disk_waits.wait(context_.memory.item_stored[item]);
    slot.record_loaded = sealed.load(item, {slot.memory, sealed.padded_bytes(item)});
  }
  if (access_ == Access::update && !records_alone_) load_gradient(slot);
}

void ChunkStream::load_gradient(Slot& slot) {
  const UnitState& state = context_.states[slot.unit];
  if (!state.accumulator_on_nvme) return;
  const std::size_t item = state.accumulator_items + slot.index;
  offload::SealedStore& sealed = *context_.memory.sealed;
  context_.update_disk_waits.wait(context_.memory.item_stored[item]);
  slot.gradient_loaded =
      sealed.load(item, {slot.memory + context_.needs.spill.slot_record_bytes, sealed.padded_bytes(item)});
}

ChunkView ChunkStream::view_of(std::size_t unit, std::size_t index) const {
  const UnitState& state = context_.states[unit];
  const std::size_t moment_count = context_.optimizer->moment_names().size();
  ChunkView view;
  view.unit = unit;
  view.index = index;
  view.begin = index * context_.plan.chunk_count;
  view.count = std::min<std::size_t>(context_.plan.chunk_count, state.state.count() - view.begin);
  const TierKind home = state.record_homes.of(index);
  if (home != TierKind::nvme) {
    const std::size_t host_begin = std::size_t{state.record_homes.device} * context_.plan.chunk_count;
    view.master = home == TierKind::device ? state.records + view.begin * (1 + moment_count)
                                           : state.host_records + (view.begin - host_begin) * (1 + moment_count);
    for (std::size_t m = 0; m < moment_count; ++m) view.moments[m] = view.master + (m + 1) * view.count;
  }
  const float* gradients = context_.options.stage == 0 ? state.accumulator : state.accumulator_shard;
  if (gradients != nullptr) view.gradient = gradients + view.begin;
  if (state.published_shard != nullptr) {
    view.published = state.published_shard + view.begin * bytes_per_element(context_.options.dtype);
  }
  return view;
}

ChunkView ChunkStream::take(std::size_t unit, std::size_t index) {
  ChunkView view = view_of(unit, index);
  if (!needs_slot(unit, index)) return view;
  load_ahead();
  STRATA_ASSERT(taken_ < loading_);
  view.slot = taken_ % slots_.size();
  const Slot& slot = slots_[view.slot];
  STRATA_ASSERT(slot.unit == unit && slot.index == index);
  ++taken_;
  const UnitState& state = context_.states[unit];
  const SpillNeeds& spill = context_.needs.spill;
  const offload::SealedStore* sealed = context_.memory.sealed.get();
  if (record_on_nvme(unit, index)) {
    const std::size_t moment_count = context_.optimizer->moment_names().size();
    std::byte* moments = slot.memory + view.count * (state.split_master ? sizeof(std::uint16_t) : sizeof(float));
    for (std::size_t m = 0; m < moment_count; ++m) {
      view.moments[m] = reinterpret_cast<float*>(moments) + m * view.count;
    }
    if (state.split_master) {
      view.remainder = reinterpret_cast<std::uint16_t*>(slot.memory);
    } else {
      view.master = reinterpret_cast<float*>(slot.memory);
    }
    if (access_ != Access::write) {
      context_.update_disk_waits.wait(slot.record_loaded);
      const std::size_t item = record_item(unit, index);
      sealed->verify(item, {slot.memory, sealed->padded_bytes(item)});
    }
  }
  if (access_ == Access::update && state.accumulator_on_nvme) {
    context_.update_disk_waits.wait(slot.gradient_loaded);
    const std::size_t item = state.accumulator_items + index;
    const std::byte* gradient = slot.memory + spill.slot_record_bytes;
    sealed->verify(item, {gradient, sealed->padded_bytes(item)});
    view.gradient = reinterpret_cast<const float*>(gradient);
  }
  if (state.published_on_nvme) view.published = slot.memory + spill.slot_record_bytes + spill.slot_gradient_bytes;
  return view;
}

void ChunkStream::give_back(const ChunkView& view) {
  if (view.slot == ChunkView::no_slot) return;
  ++given_back_;
  Slot& slot = slots_[view.slot];
  const UnitState& state = context_.states[view.unit];
  EngineMemory& memory = context_.memory;
  const auto store = [&](std::size_t item, const std::byte* from) {
    return memory.item_stored[item] = memory.sealed->store(item, {from, memory.sealed->padded_bytes(item)});
  };
  if (access_ != Access::read) {
    if (state.published_on_nvme) slot.published_stored = store(state.published_items + view.index, view.published);
    if (record_on_nvme(view.unit, view.index)) {
      slot.record_stored = store(record_item(view.unit, view.index), slot.memory);
    }
  }
  load_ahead();
}

void ChunkStream::wait_stored() {
  for (const Slot& slot : slots_) {
    context_.update_disk_waits.wait(slot.record_stored);
    context_.update_disk_waits.wait(slot.published_stored);
  }
}

std::span<float> ChunkStream::join_masters(const ChunkView& view) {
  if (view.master != nullptr) return {view.master, view.count};
  std::byte* buffer = context_.memory.io.bytes().data() + slots_.size() * context_.needs.spill.slot_bytes();
  const std::span<float> masters(reinterpret_cast<float*>(buffer), view.count);
  optim::join_masters({reinterpret_cast<const std::uint16_t*>(view.published), view.count},
                      {view.remainder, view.count}, masters.data());
  return masters;
}

void ChunkStream::split_masters(const ChunkView& view, std::span<const float> masters) {
  if (view.master == nullptr) optim::split_masters(masters, view.remainder);
}

std::span<std::byte> ChunkStream::spare_published_room() const {
  const SpillNeeds& spill = context_.needs.spill;
  if (slots_.empty()) return {};
  return {slots_[0].memory + spill.slot_record_bytes + spill.slot_gradient_bytes, spill.slot_published_bytes};
}

}  // namespace strata::engine
