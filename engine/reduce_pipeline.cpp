#include "engine/reduce_pipeline.h"

#include <fmt/format.h>

#include <cstring>

#include "engine/gather_pipeline.h"
#include "sharding/reduce_kernel.h"

namespace strata::engine {

ReducePipeline::ReducePipeline(EngineContext& context)
    : context_(context), staging_(context), slots_(context.needs.grad_slots.sizes.size()) {}

// A function of the caller's calls alone: peers read the same slot.
std::size_t ReducePipeline::choose(std::size_t unit) const {
  const std::size_t own_count = context_.needs.own_grad_slot_count;
  if (unit < own_count && !slots_[unit].held) return unit;
  std::size_t best = never;
  for (std::size_t i = own_count; i < slots_.size(); ++i) {
    if (slots_[i].held) continue;
    if (best == never || slots_[i].used_at < slots_[best].used_at) best = i;
  }
  return best;
}

ReducePipeline::Slot ReducePipeline::acquire(std::size_t unit) {
  if (context_.layouts[unit].trainable().full_count == 0) return {};
  const std::size_t slot = held_count_ < context_.options.leases ? choose(unit) : never;
  if (slot == never) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("gradients of unit '{}': {} gradient leases are held already ({}), and --strata-leases is {}: "
                    "commit one first, or raise it",
                    context_.units[unit].name, held_count_, holders(), context_.options.leases));
  }
  slot_waited_s += context_.timed_wait(slots_[slot].reduced);
  slots_[slot].held = true;
  slots_[slot].holder = unit;
  slots_[slot].used_at = ++clock_;
  ++held_count_;
  return {slot, context_.memory.grad_slots() + context_.needs.grad_slots.offsets[slot]};
}

void ReducePipeline::submit(std::size_t unit, std::size_t slot, float weight) {
  UnitState& state = context_.states[unit];
  std::byte* source = context_.memory.grad_slots() + context_.needs.grad_slots.offsets[slot];
  slots_[slot].held = false;
  --held_count_;
  if (weight != 0) zero_gaps(unit, source);
  const ReduceMode mode = state.reduced ? ReduceMode::add : ReduceMode::store;
  state.reduced = true;
  ReducePipeline* self = this;
  const std::uint64_t hash = context_.caller_hash;
  if (context_.options.reduce == ReducePolicy::step) {
    slots_[slot].reduced = context_.comm_lane->enqueue([self, unit, source, weight, mode] {
      self->context_.comm_lane->wait_with_idle(self->context_.states[unit].updated);
      self->accumulate(unit, source, weight, mode);
    });
    return;
  }
  slots_[slot].reduced = context_.comm_lane->enqueue([self, unit, source, weight, mode, hash] {
    EngineContext& context = self->context_;
    const UnitState& state = context.states[unit];
    const std::size_t shard_count = context.layouts[unit].trainable().shard_count;
    context.comm_lane->wait_with_idle(state.updated);
    ReduceTarget target;
    target.accumulator = {state.accumulator_shard, shard_count};
    if (state.accumulator_on_nvme) target.accumulator = self->staging_.open(unit, mode);
    target.mode = mode;
    target.weight = weight;
    target.reduce_dtype = context.options.reduce_dtype;
    target.leaf_norms = {state.norm_leaves, shard_count / norm_leaf_count};
    self->reduce(unit, source, context.options.grad_dtype, target, {static_cast<std::uint32_t>(unit), hash, "commit"});
    if (state.accumulator_on_nvme) self->staging_.close();
  });
}

void ReducePipeline::accumulate(std::size_t unit, const std::byte* source, float weight, ReduceMode mode) {
  const std::size_t count = context_.layouts[unit].trainable().full_count;
  const sharding::ReduceSource local{source, weight, context_.rank()};
  sharding::ReduceJob job;
  if (weight != 0) job.sources = {&local, 1};
  job.dtype = context_.options.grad_dtype;
  job.count = count;
  job.accumulator = context_.states[unit].accumulator;
  job.mode = mode;
  sharding::reduce_slices(job);
}

void ReducePipeline::enqueue_step_reductions() {
  ReducePipeline* self = this;
  for (std::size_t unit = 0; unit < context_.states.size(); ++unit) {
    if (!context_.states[unit].reduced) continue;
    const std::uint64_t hash = context_.caller_hash;
    context_.comm_lane->enqueue([self, unit, hash] {
      const UnitState& state = self->context_.states[unit];
      const std::size_t shard_count = self->context_.layouts[unit].trainable().shard_count;
      ReduceTarget target;
      target.accumulator = {state.accumulator_shard, shard_count};  // in place: nobody else reads this slice
      target.reduce_dtype = self->context_.options.reduce_dtype;
      target.leaf_norms = {state.norm_leaves, shard_count / norm_leaf_count};
      self->reduce(unit, reinterpret_cast<const std::byte*>(state.accumulator), Dtype::f32, target,
                   {static_cast<std::uint32_t>(unit), hash, "step"});
    });
  }
}

void ReducePipeline::reduce(std::size_t unit, const std::byte* source, Dtype dtype, const ReduceTarget& target,
                            const CallTag& tag) {
  const std::size_t shard_count = context_.layouts[unit].trainable().shard_count;
  const ReduceOutcome outcome = context_.communicator->reduce_scatter(source, shard_count, dtype, target, tag);
  if (outcome.finite || finding_) return;
  const std::size_t first = shard_count * static_cast<std::size_t>(context_.rank());
  finding_ = Finding{outcome.nonfinite_rank, unit, first + outcome.nonfinite_element};
}

void ReducePipeline::zero_gaps(std::size_t unit, std::byte* data) const {
  const std::size_t element_bytes = bytes_per_element(context_.options.grad_dtype);
  for (const sharding::FlatRange& gap : context_.layouts[unit].gaps()) {
    std::memset(data + gap.begin * element_bytes, 0, gap.count() * element_bytes);
  }
}

std::string ReducePipeline::holders() const {
  std::string text;
  for (const SlotState& slot : slots_) {
    if (!slot.held) continue;
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", context_.units[slot.holder].name);
  }
  return text;
}

void ReducePipeline::end_round() {
  finding_.reset();
  for (UnitState& state : context_.states) state.reduced = false;
}

}  // namespace strata::engine
