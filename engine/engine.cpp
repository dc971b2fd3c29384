#include <strata/engine.h>

#include <utility>

#include "engine/core.h"

namespace strata {

std::string_view to_string(Skip skip) {
  switch (skip) {
    case Skip::none: return "none";
    case Skip::nonfinite: return "nonfinite";
    case Skip::discarded: return "discarded";
    case Skip::no_weight: return "no_weight";
  }
  return "?";
}

Engine::Engine(std::vector<Unit> units, std::shared_ptr<const Optimizer> optimizer, Communicator& communicator,
               const Options& options)
    : core_(std::make_unique<detail::EngineCore>(std::move(units), std::move(optimizer), communicator, options)) {}

Engine::~Engine() = default;

void Engine::initialize(const Initializer& initializer) { core_->initialize(initializer); }
std::span<const Unit> Engine::forward_order() const { return core_->context().units; }
std::span<const Unit> Engine::backward_order() const { return core_->backward_order(); }
void Engine::micro_batch(const MicroBatch& micro_batch) { core_->begin_micro_batch(micro_batch); }
void Engine::idle_micro_batch() { core_->idle_micro_batch(); }
void Engine::record_loss(double loss) { core_->record_loss(loss); }
ParamLease Engine::gather(const Unit& unit) { return core_->gather(unit); }
GradLease Engine::gradients(const Unit& unit) { return core_->gradients(unit); }
void Engine::stash(std::uint64_t key, std::span<const std::byte> bytes) { core_->stash(key, bytes); }
void Engine::fetch(std::uint64_t key, std::span<std::byte> target) { core_->fetch(key, target); }
void Engine::drop_stashes() { core_->drop_stashes(); }
double Engine::loss_scale() const { return core_->loss_scale(); }
StepReport Engine::step(const StepOptions& options) { return core_->step(options); }
std::uint64_t Engine::step_count() const { return core_->step_count(); }
std::uint64_t Engine::applied_count() const { return core_->applied_count(); }
double Engine::mean_over_ranks(double value, double weight) { return core_->mean_over_ranks(value, weight); }
void Engine::retune(const Options& options) { core_->retune(options); }
std::uint64_t Engine::state_hash() { return core_->state_hash(); }
void Engine::visit_state(const StateVisitor& visitor) { core_->visit_state(visitor); }
const Plan& Engine::plan() const { return core_->context().plan; }
std::span<const std::string> Engine::warnings() const { return core_->context().memory.warnings; }
std::uint64_t Engine::device_bytes() const { return core_->context().memory.device_bytes; }

Engine::Evaluation Engine::evaluation() {
  core_->begin_evaluation();
  return Evaluation(core_.get());
}

Engine::Evaluation::~Evaluation() {
  if (core_ != nullptr) core_->end_evaluation();
}

}  // namespace strata
