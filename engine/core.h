// The engine behind its handle: keeps the caller's acts in order and hands them to the pipelines.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <strata/engine.h>
#include "engine/activation_store.h"
#include "engine/context.h"
#include "engine/gather_pipeline.h"
#include "engine/micro_batch_record.h"
#include "engine/reduce_pipeline.h"
#include "engine/update_pipeline.h"
#include "optim/loss_scaler.h"

namespace strata::detail {

class EngineCore {
 public:
  EngineCore(std::vector<Unit> units, std::shared_ptr<const Optimizer> optimizer, Communicator& communicator,
             const Options& options);
  ~EngineCore();

  void initialize(const Initializer& initializer);
  void begin_micro_batch(const MicroBatch& micro_batch);
  void idle_micro_batch();
  void record_loss(double loss);
  ParamLease gather(const Unit& unit);
  GradLease gradients(const Unit& unit);
  void stash(std::uint64_t key, std::span<const std::byte> bytes);
  void fetch(std::uint64_t key, std::span<std::byte> target);
  void drop_stashes() { activations_->drop_all(); }
  StepReport step(const StepOptions& options);
  void begin_evaluation();
  void end_evaluation() noexcept;
  double mean_over_ranks(double value, double weight);
  std::uint64_t state_hash();
  void retune(const Options& options);
  void visit_state(const StateVisitor& visitor);

  // For leases.
  void release_params(std::size_t unit) noexcept;
  void commit(std::size_t unit, std::size_t slot, const std::byte* data);
  void discard(std::size_t unit, std::size_t slot, const std::byte* data) noexcept;
  std::span<const std::byte> param_bytes(std::size_t unit, std::string_view tensor, const std::byte* data) const;
  std::span<std::byte> grad_bytes(std::size_t unit, std::string_view tensor, std::byte* data) const;
  std::span<std::byte> grad_room(std::size_t unit, std::byte* data) const;
  void require_dtype(Dtype wanted, Dtype actual, std::string_view tensor) const;

  const engine::EngineContext& context() const { return context_; }
  std::span<const Unit> backward_order() const { return backward_; }
  double loss_scale() const { return scaler_ ? scaler_->scale() : 1.0; }
  std::uint64_t step_count() const { return step_count_; }
  std::uint64_t applied_count() const { return applied_count_; }

 private:
  std::size_t index_of(const Unit& unit) const;
  std::size_t tensor_of(std::size_t unit, std::string_view tensor) const;
  void check_usable() const;  // throws the failure again
  void check_no_leases(std::string_view act) const;
  void end_micro_batch();
  void replay();
  void hand_in(std::size_t unit, std::size_t slot, float weight);
  engine::Verdict reach_verdict(const StepOptions& options);
  void fill_payload(const StepOptions& options);
  void apply(const StepOptions& options, const engine::Verdict& verdict);
  StepReport report_of(const engine::Verdict& verdict);
  void finish_step();
  void drain();
  void start_parts();
  void end_parts();

  engine::EngineContext context_;
  std::vector<Unit> backward_;
  std::optional<optim::LossScaler> scaler_;  // f16 only
  std::unique_ptr<engine::GatherPipeline> gather_;
  std::unique_ptr<engine::ReducePipeline> reduce_;
  std::unique_ptr<engine::UpdatePipeline> update_;
  std::optional<engine::ActivationStore> activations_;
  engine::MicroBatchRecord record_;
  std::vector<std::uint32_t> update_order_;
  std::vector<std::uint8_t> reduced_;
  std::vector<std::span<double>> leaves_;
  std::vector<sharding::NormNode> node_scratch_;
  std::optional<Error> failure_;
  engine::AgreementHead head_;  // of the step under way
  double micro_weight_ = 0;
  bool in_micro_batch_ = false;
  bool micro_loss_recorded_ = false;
  std::uint64_t step_count_ = 0;
  std::uint64_t applied_count_ = 0;
  std::uint64_t skipped_count_ = 0;
  std::uint64_t moved_bytes_before_ = 0;
  TierCounters disk_before_;
  int exceptions_at_start_ = 0;
};

}  // namespace strata::detail
