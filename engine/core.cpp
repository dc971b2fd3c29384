#include "engine/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include <strata/detail/assert.h>
#include "engine/engine_start.h"
#include "engine/state_access.h"

namespace strata::detail {
namespace {

void check_weight(double weight) {
  if (std::isfinite(weight) && weight >= 0 && static_cast<double>(static_cast<float>(weight)) == weight) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("micro_batch weight {} must be finite, at least 0 and exact as f32 (a count below 2^24 is)", weight));
}

}  // namespace

EngineCore::EngineCore(std::vector<Unit> units, std::shared_ptr<const Optimizer> optimizer, Communicator& communicator,
                       const Options& options)
    : exceptions_at_start_(std::uncaught_exceptions()) {
  engine::start(context_, {std::move(units), std::move(optimizer), communicator}, options);
  for (std::size_t i = context_.units.size(); i > 0; --i) backward_.push_back(context_.units[i - 1]);
  if (context_.options.dtype == Dtype::f16) scaler_.emplace();
  reduced_.resize(context_.units.size());
  moved_bytes_before_ = communicator.counters().moved_bytes;
  start_parts();
}

void EngineCore::start_parts() {
  gather_ = std::make_unique<engine::GatherPipeline>(context_);
  reduce_ = std::make_unique<engine::ReducePipeline>(context_);
  update_ = std::make_unique<engine::UpdatePipeline>(context_);
  engine::start_lanes(context_);
  const engine::ActivationNeeds& activations = context_.needs.activations;
  activations_.emplace(activations, context_.needs.activation_home, context_.memory.nvme.get());
  if (context_.needs.activation_home == TierKind::device) context_.memory.device_bytes += activations.room_bytes;
  context_.memory.host_bytes += activations.host_bytes(context_.needs.activation_home);
  leaves_.clear();
  for (std::size_t i = 0; i < context_.states.size(); ++i) {
    const std::size_t leaf_count = context_.needs.norm_leaves.sizes[i] / sizeof(double);
    leaves_.emplace_back(context_.states[i].norm_leaves, leaf_count);
  }
}

void EngineCore::end_parts() {
  // What was enqueued is the same on all ranks and so comes to its end; after an abort it fails at once.
  context_.update_lane->finish();
  context_.comm_lane->finish();
  activations_.reset();
  update_.reset();
  reduce_.reset();
  gather_.reset();
}

EngineCore::~EngineCore() {
  if (std::uncaught_exceptions() > exceptions_at_start_) {
    const std::string_view unit =
        context_.last_unit < context_.units.size() ? context_.units[context_.last_unit].name : std::string_view("-");
    char cause[240];
    const auto end = fmt::format_to_n(cause, sizeof(cause) - 1,
                                      "an exception ended its engine; its last call was {} (unit '{}') in step {}",
                                      context_.last_act, unit, step_count_ + 1);
    context_.communicator->abort({cause, static_cast<std::size_t>(end.out - cause)});
  }
  end_parts();
}

void EngineCore::check_usable() const {
  if (failure_) throw Error(failure_->code(), failure_->text());
  context_.comm_lane->check();
  context_.update_lane->check();
}

std::size_t EngineCore::index_of(const Unit& unit) const {
  if (unit.index < context_.units.size() && context_.units[unit.index].name == unit.name) return unit.index;
  for (const Unit& own : context_.units) {
    if (own.name == unit.name) return own.index;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("unit '{}' is not one of this engine's", unit.name));
}

void EngineCore::initialize(const Initializer& initializer) {
  check_usable();
  check_no_leases("initialize");
  drain();
  context_.note_call("initialize", 0);
  engine::initialize_state(context_, update_->chunks(), initializer);
  gather_->end_round();
}

void EngineCore::begin_micro_batch(const MicroBatch& micro_batch) {
  check_usable();
  check_weight(micro_batch.weight);
  if (gather_->evaluating())
    throw Error(ErrorCode::invalid_argument, "micro_batch() within an evaluation: end it first");
  end_micro_batch();
  in_micro_batch_ = true;
  micro_weight_ = micro_batch.weight;
  head_.weight += micro_batch.weight;
}

void EngineCore::end_micro_batch() {
  record_.end();
  in_micro_batch_ = false;
  micro_loss_recorded_ = false;
}

void EngineCore::record_loss(double loss) {
  if (!in_micro_batch_ || micro_loss_recorded_) {
    throw Error(ErrorCode::invalid_argument, "record_loss() is for once in a micro-batch, after micro_batch()");
  }
  micro_loss_recorded_ = true;
  if (micro_weight_ == 0) return;  // 0 * NaN
  head_.loss_sum += micro_weight_ * loss;
  head_.loss_weight += micro_weight_;
}

ParamLease EngineCore::gather(const Unit& unit) {
  check_usable();
  const std::size_t index = index_of(unit);
  const std::byte* data = gather_->gather(index);
  if (in_micro_batch_ && !gather_->evaluating()) record_.note(engine::MicroBatchAct::gather, index);
  return ParamLease(this, index, data);
}

void EngineCore::release_params(std::size_t unit) noexcept {
  gather_->release(unit);
  if (in_micro_batch_ && !gather_->evaluating()) record_.note(engine::MicroBatchAct::release, unit);
}

GradLease EngineCore::gradients(const Unit& unit) {
  check_usable();
  const std::size_t index = index_of(unit);
  if (gather_->evaluating()) throw Error(ErrorCode::invalid_argument, "gradients() within an evaluation: end it first");
  if (!in_micro_batch_)
    throw Error(ErrorCode::invalid_argument, "gradients() before micro_batch(): say its weight first");
  const engine::ReducePipeline::Slot slot = reduce_->acquire(index);
  record_.note(engine::MicroBatchAct::gradients, index);
  return GradLease(this, index, slot.index, slot.data);
}

void EngineCore::commit(std::size_t unit, std::size_t slot, const std::byte* data) {
  if (data != nullptr) hand_in(unit, slot, static_cast<float>(micro_weight_));
  record_.note(engine::MicroBatchAct::commit, unit);
}

void EngineCore::discard(std::size_t unit, std::size_t slot, const std::byte* data) noexcept {
  if (head_.discarded_unit == engine::nobody) head_.discarded_unit = static_cast<std::uint32_t>(unit);
  if (data != nullptr) hand_in(unit, slot, 0.0f);
  record_.note(engine::MicroBatchAct::commit, unit);
}

void EngineCore::hand_in(std::size_t unit, std::size_t slot, float weight) {
  context_.note_call("commit", unit);
  reduce_->submit(unit, slot, weight);
}

void EngineCore::idle_micro_batch() {
  check_usable();
  begin_micro_batch({.weight = 0});
  replay();
}

void EngineCore::replay() {
  const auto gather_all = [&](std::span<const Unit> order, bool train) {
    for (const Unit& unit : order) {
      const ParamLease params = gather(unit);
      if (train) gradients(unit).commit();
    }
  };
  if (record_.last().empty()) {
    gather_all(context_.units, false);
    gather_all(backward_, true);
    return;
  }
  const std::vector<engine::MicroBatchEntry> entries = record_.last();
  std::vector<std::pair<std::uint32_t, ParamLease>> params;
  std::vector<std::pair<std::uint32_t, GradLease>> grads;
  const auto take = [](auto& leases, std::uint32_t unit) {
    const auto at = std::find_if(leases.begin(), leases.end(), [&](const auto& held) { return held.first == unit; });
    STRATA_ASSERT(at != leases.end());
    auto lease = std::move(at->second);
    leases.erase(at);
    return lease;
  };
  for (const auto& [act, unit] : entries) {
    switch (act) {
      case engine::MicroBatchAct::gather: params.emplace_back(unit, gather(context_.units[unit])); break;
      case engine::MicroBatchAct::release: take(params, unit); break;
      case engine::MicroBatchAct::gradients: grads.emplace_back(unit, gradients(context_.units[unit])); break;
      case engine::MicroBatchAct::commit: take(grads, unit).commit(); break;
    }
  }
}

void EngineCore::stash(std::uint64_t key, std::span<const std::byte> bytes) {
  check_usable();
  activations_->stash(key, bytes);
}

void EngineCore::fetch(std::uint64_t key, std::span<std::byte> target) {
  check_usable();
  activations_->fetch(key, target);
}

void EngineCore::check_no_leases(std::string_view act) const {
  if (gather_->held_unit_count() > 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} while units are held: {}: release them first", act, gather_->holders()));
  }
  if (reduce_->held_count() > 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} while gradient leases are held: {}: commit them first", act, reduce_->holders()));
  }
  activations_->check_empty(act);
}

void EngineCore::begin_evaluation() {
  check_usable();
  if (gather_->evaluating()) throw Error(ErrorCode::invalid_argument, "an evaluation within an evaluation");
  gather_->begin_evaluation();
}

void EngineCore::end_evaluation() noexcept { gather_->end_evaluation(); }

double EngineCore::mean_over_ranks(double value, double weight) {
  check_usable();
  context_.note_call("mean_over_ranks", 0);
  double sums[2] = {weight == 0 ? 0 : value * weight, weight};
  double* at = sums;
  engine::EngineContext* context = &context_;
  context_.comm_lane
      ->enqueue([context, at] {
        context->communicator->all_reduce(std::span<double>(at, 2), context->tag("mean_over_ranks", no_unit));
      })
      .wait();
  return sums[1] == 0 ? std::numeric_limits<double>::quiet_NaN() : sums[0] / sums[1];
}

std::uint64_t EngineCore::state_hash() {
  check_usable();
  drain();
  context_.note_call("state_hash", 0);
  std::uint64_t sum = engine::own_state_hash(context_, {update_->chunks(), gather_->loader()});
  std::uint64_t* at = &sum;
  engine::EngineContext* context = &context_;
  context_.comm_lane
      ->enqueue([context, at] {
        context->communicator->all_reduce(std::span<std::uint64_t>(at, 1), context->tag("state_hash", no_unit));
      })
      .wait();
  return sum;
}

void EngineCore::visit_state(const StateVisitor& visitor) {
  check_usable();
  drain();
  engine::visit_state(context_, {update_->chunks(), gather_->loader()}, visitor);
}

void EngineCore::drain() {
  context_.comm_lane->drain();
  context_.update_lane->drain();
}

}  // namespace strata::detail
