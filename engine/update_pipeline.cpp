#include "engine/update_pipeline.h"

#include <algorithm>

#include <strata/detail/cast.h>

namespace strata::engine {

UpdatePipeline::UpdatePipeline(EngineContext& context) : context_(context), team_(context.plan.threads) {}

std::size_t UpdatePipeline::chunk_count_of(std::size_t unit) const {
  const std::size_t chunk = context_.plan.chunk_count;
  return (context_.states[unit].state.count() + chunk - 1) / chunk;
}

ChunkPlace UpdatePipeline::chunk(std::size_t unit, std::size_t index) const {
  const UnitState& state = context_.states[unit];
  const std::size_t moment_count = context_.optimizer->moment_names().size();
  ChunkPlace place;
  place.begin = index * context_.plan.chunk_count;
  place.count = std::min<std::size_t>(context_.plan.chunk_count, state.state.count() - place.begin);
  place.master = state.records + place.begin * (1 + moment_count);
  for (std::size_t m = 0; m < moment_count; ++m) place.moments[m] = place.master + (m + 1) * place.count;
  return place;
}

std::byte* UpdatePipeline::published_at(std::size_t unit, std::size_t element) const {
  return context_.states[unit].published_shard + element * bytes_per_element(context_.options.dtype);
}

void UpdatePipeline::enqueue(const std::vector<std::uint32_t>& order, const StepScalars& scalars) {
  EngineContext* context = &context_;
  UpdatePipeline* self = this;
  const int stage = context_.options.stage;
  const std::uint64_t hash = context_.caller_hash;
  for (const std::uint32_t unit : order) {
    UnitState& state = context_.states[unit];
    if (!state.reduced) continue;
    if (stage == 0) {  // every rank updates everything, from the whole sum
      state.whole_gradient = context_.comm_lane->enqueue([context, unit, hash] {
        const UnitState& own = context->states[unit];
        context->communicator->all_gather(own.accumulator_shard, own.accumulator,
                                          context->layouts[unit].trainable().shard_count, Dtype::f32,
                                          {unit, hash, "step"});
      });
    }
  }
  for (const std::uint32_t unit : order) {
    UnitState& state = context_.states[unit];
    if (!state.reduced) continue;
    state.updated = context_.update_lane->enqueue([self, unit, scalars] { self->update_unit(unit, scalars); });
    state.ready = state.updated;
    if (stage == 1 || stage == 2) {
      state.ready = context_.comm_lane->enqueue([context, unit, hash] {
        const UnitState& own = context->states[unit];
        context->comm_lane->wait_with_idle(own.updated);
        context->communicator->all_gather(own.published_shard, own.published,
                                          context->layouts[unit].trainable().shard_count, context->options.dtype,
                                          {unit, hash, "step"});
      });
    }
  }
}

void UpdatePipeline::update_unit(std::size_t unit, const StepScalars& scalars) {
  context_.states[unit].whole_gradient.wait();
  team_.run(chunk_count_of(unit), [&](std::size_t index) noexcept { update_chunk(unit, index, scalars); });
}

void UpdatePipeline::update_chunk(std::size_t unit, std::size_t index, const StepScalars& scalars) noexcept {
  const UnitState& state = context_.states[unit];
  const ChunkPlace place = chunk(unit, index);
  const float* gradients = context_.options.stage == 0 ? state.accumulator : state.accumulator_shard;
  for (const GroupRun& run : state.runs) {
    const std::size_t begin = std::max(run.begin, place.begin);
    const std::size_t end = std::min(run.end, place.begin + place.count);
    if (begin >= end) continue;
    UpdatePiece piece;
    piece.count = end - begin;
    piece.master = place.master + (begin - place.begin);
    for (std::size_t m = 0; m < moments_max; ++m) {
      if (place.moments[m]) piece.moments[m] = place.moments[m] + (begin - place.begin);
    }
    piece.gradient = gradients + begin;
    piece.published = published_at(unit, begin);
    piece.published_dtype = context_.options.dtype;
    const UpdateStep step{scalars.lr, scalars.applied_count, scalars.gradient_scale, run.decay, run.lr_factor};
    const UpdateOutcome outcome = context_.optimizer->update(piece, step);
    if (outcome.published_overflow_count > 0) {
      overflow_count_.fetch_add(outcome.published_overflow_count, std::memory_order_relaxed);
    }
  }
}

}  // namespace strata::engine
