#include "engine/gather_pipeline.h"

#include <fmt/format.h>

#include <utility>

#include <strata/detail/assert.h>

namespace strata::engine {

GatherPipeline::GatherPipeline(EngineContext& context) : context_(context), loader_(context) {
  std::vector<std::size_t> unit_bytes;
  for (const auto& layout : context.layouts) {
    unit_bytes.push_back(layout.whole_count() * bytes_per_element(context.options.dtype));
  }
  residency_ = Residency(context.needs.param_slots.sizes, std::move(unit_bytes));
}

const std::byte* GatherPipeline::gather(std::size_t unit) {
  UnitState& state = context_.states[unit];
  if (residency_.holder_count(unit) == 0 && residency_.held_unit_count() >= context_.options.leases) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("gather of unit '{}': {} units are held already ({}), and --strata-leases is {}: release one "
                    "first, or raise it",
                    context_.units[unit].name, residency_.held_unit_count(), holders(), context_.options.leases));
  }
  context_.note_call("gather", unit);
  schedule_->note(unit);
  if (context_.options.stage < 3) {
    update_waited_s += context_.timed_wait(state.updated);
    waited_s += context_.timed_wait(state.ready);
    residency_.hold(unit);
    return state.published;
  }
  if (residency_.slot_of(unit) == never) {
    const std::size_t slot = residency_.place(unit, *schedule_, Residency::For::caller);
    STRATA_ASSERT(slot != never);  // the plan has a slot of the largest size for each lease
    enqueue_gather(unit, slot);
  }
  residency_.hold(unit);
  prefetch();
  try {
    update_waited_s += context_.timed_wait(state.updated);
    waited_s += context_.timed_wait(state.gathered);
  } catch (...) {
    residency_.release(unit);
    throw;
  }
  return slot_data(residency_.slot_of(unit));
}

void GatherPipeline::prefetch() {
  for (std::uint32_t ahead = 0; ahead < context_.plan.prefetch; ++ahead) {
    const std::size_t unit = schedule_->foretell(ahead);
    if (unit == never) return;
    if (residency_.slot_of(unit) != never) continue;
    const std::size_t slot = residency_.place(unit, *schedule_, Residency::For::prefetch);
    if (slot == never) return;
    enqueue_gather(unit, slot);
  }
}

void GatherPipeline::enqueue_gather(std::size_t unit, std::size_t slot) {
  std::byte* target = slot_data(slot);
  EngineContext* context = &context_;
  const std::uint64_t hash = context_.caller_hash;
  ShardLoader* loader = context_.states[unit].published_on_nvme ? &loader_ : nullptr;
  if (loader != nullptr) loader->want(unit);
  context_.states[unit].gathered = context_.comm_lane->enqueue([context, loader, unit, target, hash] {
    const UnitState& state = context->states[unit];
    const sharding::FlatLayout& layout = context->layouts[unit];
    const Dtype dtype = context->options.dtype;
    const std::size_t element_bytes = bytes_per_element(dtype);
    const CallTag tag{static_cast<std::uint32_t>(unit), hash, "gather"};
    context->comm_lane->wait_with_idle(state.updated);
    const LoadedShard shard = loader != nullptr ? loader->take() : LoadedShard{state.published, state.frozen};
    const std::size_t trainable_count = layout.trainable().shard_count;
    if (trainable_count > 0) context->communicator->all_gather(shard.trainable, target, trainable_count, dtype, tag);
    if (layout.frozen().shard_count > 0) {
      context->communicator->all_gather(shard.frozen, target + layout.frozen_begin() * element_bytes,
                                        layout.frozen().shard_count, dtype, tag);
    }
    if (loader != nullptr) loader->give_back();
  });
}

std::string GatherPipeline::holders() const {
  std::string text;
  for (std::size_t unit = 0; unit < context_.units.size(); ++unit) {
    if (residency_.holder_count(unit) == 0) continue;
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", context_.units[unit].name);
  }
  return text;
}

void GatherPipeline::end_evaluation() {
  evaluation_.end_round();
  schedule_ = &training_;
}

void GatherPipeline::end_round() {
  training_.end_round();
  residency_.forget_all();
}

void GatherPipeline::order_by_use(std::vector<std::uint32_t>& order) {
  order.clear();
  seen_.assign(context_.units.size(), 0);
  const auto add = [&](std::uint32_t unit) {
    if (std::exchange(seen_[unit], 1) == 0) order.push_back(unit);
  };
  for (const std::uint32_t unit : training_.recorded()) add(unit);
  for (std::uint32_t unit = 0; unit < context_.units.size(); ++unit) add(unit);
}

}  // namespace strata::engine
