#include "engine/update_pipeline.h"

#include <algorithm>
#include <array>

#include "optim/split_master.h"

namespace strata::engine {

namespace {

constexpr std::size_t slice_count = 16 * 1024;  // elements of a streamed chunk that one member of the team takes
constexpr std::size_t tile_count = 4096;        // of these, masters that are whole at a time: they stay in the L1 cache

}  // namespace

UpdatePipeline::UpdatePipeline(EngineContext& context)
    : context_(context), chunks_(context), team_(context.plan.threads) {
  order_.reserve(context.units.size());
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
  if (context_.memory.nvme) {
    context_.update_lane->drain();  // its last pass ended long ago, or a gradient of this step could not be here
    order_.clear();
    for (const std::uint32_t unit : order) {
      if (context_.states[unit].reduced) order_.push_back(unit);
    }
    context_.update_lane->enqueue([self] { self->chunks_.begin(Access::update, self->order_); });
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
  if (context_.memory.nvme) context_.update_lane->enqueue([self] { self->chunks_.preload(self->order_); });
}

// What lies in memory goes first, each chunk to a member of the team, while the first loads run.
void UpdatePipeline::update_unit(std::size_t unit, const StepScalars& scalars) {
  context_.states[unit].whole_gradient.wait();
  const std::size_t chunk_count = chunks_.chunk_count_of(unit);
  std::size_t in_memory = 0;
  while (in_memory < chunk_count && !chunks_.needs_slot(unit, in_memory)) ++in_memory;
  team_.run(in_memory, [&](std::size_t index) noexcept {
    const ChunkView view = chunks_.in_place(unit, index);
    update_range(view, {0, view.count}, scalars);
  });
  for (std::size_t index = in_memory; index < chunk_count; ++index) {
    const ChunkView view = chunks_.take(unit, index);
    team_.run((view.count + slice_count - 1) / slice_count, [&](std::size_t slice) noexcept {
      const std::size_t begin = slice * slice_count;
      update_range(view, {begin, std::min(begin + slice_count, view.count)}, scalars);
    });
    chunks_.give_back(view);
  }
}

// Ranges are elements of the chunk.
void UpdatePipeline::update_range(const ChunkView& view, sharding::FlatRange range,
                                  const StepScalars& scalars) noexcept {
  if (view.master == nullptr) return update_split_range(view, range, scalars);
  update_run(view, range, view.master + range.begin, scalars);
}

void UpdatePipeline::update_split_range(const ChunkView& view, sharding::FlatRange range,
                                        const StepScalars& scalars) noexcept {
  alignas(64) std::array<float, tile_count> masters;
  const auto* const published = reinterpret_cast<const std::uint16_t*>(view.published);
  for (std::size_t begin = range.begin; begin < range.end; begin += tile_count) {
    const std::size_t count = std::min(tile_count, range.end - begin);
    optim::join_masters({published + begin, count}, {view.remainder + begin, count}, masters.data());
    update_run(view, {begin, begin + count}, masters.data(), scalars);
    optim::split_masters({masters.data(), count}, view.remainder + begin);
  }
}

// `master` holds the range alone.
void UpdatePipeline::update_run(const ChunkView& view, sharding::FlatRange range, float* master,
                                const StepScalars& scalars) noexcept {
  const std::size_t element_bytes = bytes_per_element(context_.options.dtype);
  for (const GroupRun& run : context_.states[view.unit].runs) {
    const std::size_t begin = std::max(run.begin, view.begin + range.begin);
    const std::size_t end = std::min(run.end, view.begin + range.end);
    if (begin >= end) continue;
    const std::size_t first = begin - view.begin;
    UpdatePiece piece;
    piece.count = end - begin;
    piece.master = master + (first - range.begin);
    for (std::size_t m = 0; m < moments_max; ++m) {
      if (view.moments[m]) piece.moments[m] = view.moments[m] + first;
    }
    piece.gradient = view.gradient + first;
    piece.published = view.published + first * element_bytes;
    piece.published_dtype = context_.options.dtype;
    const UpdateStep step{scalars.lr, scalars.applied_count, scalars.gradient_scale, run.decay, run.lr_factor};
    const UpdateOutcome outcome = context_.optimizer->update(piece, step);
    if (outcome.published_overflow_count > 0) {
      overflow_count_.fetch_add(outcome.published_overflow_count, std::memory_order_relaxed);
    }
  }
}

}  // namespace strata::engine
