// The end of an attempt: agree, then update or skip, on all ranks alike.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/caller_wait.h"
#include "engine/core.h"

namespace strata::detail {
namespace {

void check_step_options(const StepOptions& options) {
  if (!std::isfinite(options.lr) || options.lr < 0 || options.lr > std::numeric_limits<float>::max()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("step lr {} must be finite and at least 0", options.lr));
  }
  if (!std::isfinite(options.clip_norm) || options.clip_norm < 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("step clip_norm {} must be finite and at least 0 (0 = no clipping)", options.clip_norm));
  }
}

}  // namespace

StepReport EngineCore::step(const StepOptions& options) {
  check_usable();
  check_step_options(options);
  if (gather_->evaluating()) throw Error(ErrorCode::invalid_argument, "step() within an evaluation: end it first");
  check_no_leases("step()");
  end_micro_batch();
  context_.note_call("step", 0);

  const engine::Verdict verdict = reach_verdict(options);
  ++step_count_;
  gather_->end_round();
  const std::uint64_t overflow_count = update_->take_overflow_count();
  if (verdict.skip == Skip::none) {
    ++applied_count_;
    apply(options, verdict);
  } else {
    ++skipped_count_;
  }
  StepReport report = report_of(verdict);
  report.published_overflow_count = overflow_count;
  if (scaler_ && verdict.skip == Skip::none) scaler_->applied();
  if (scaler_ && verdict.skip == Skip::nonfinite) scaler_->skipped_nonfinite();
  finish_step();
  return report;
}

engine::Verdict EngineCore::reach_verdict(const StepOptions& options) {
  if (context_.options.reduce == ReducePolicy::step) reduce_->enqueue_step_reductions();
  const engine::CallerWait wait(context_);
  context_.comm_lane->drain();
  fill_payload(options);
  const std::span<std::byte> own = context_.memory.agreement_own.bytes();
  engine::EngineContext* context = &context_;
  const std::size_t payload_bytes = context_.needs.agreement_own.sizes[0];
  std::byte* payload = own.data();
  context_.comm_lane
      ->enqueue([context, payload, payload_bytes] {
        context->communicator->all_gather(payload, context->memory.agreement_all.bytes().data(), payload_bytes,
                                          Dtype::u8, context->tag("step", no_unit));
      })
      .wait();
  reduce_->waited_s += wait.end();
  for (std::size_t i = 0; i < reduced_.size(); ++i) reduced_[i] = context_.states[i].reduced;
  engine::AgreementInput input;
  input.payloads =
      context_.memory.agreement_all.bytes().first(payload_bytes * static_cast<std::size_t>(context_.world_size()));
  input.layouts = context_.layouts;
  input.units = context_.units;
  input.reduced = reduced_;
  input.world_size = context_.world_size();
  input.loss_scale = loss_scale();
  try {
    return engine::agree(input, node_scratch_);
  } catch (const Error& error) {
    failure_.emplace(error.code(), error.text());
    throw;
  }
}

void EngineCore::fill_payload(const StepOptions& options) {
  head_.lr_bits = std::bit_cast<std::uint32_t>(static_cast<float>(options.lr));
  head_.clip_bits = std::bit_cast<std::uint64_t>(options.clip_norm);
  if (const auto& finding = reduce_->finding()) {
    head_.nonfinite_unit = static_cast<std::uint32_t>(finding->unit);
    head_.nonfinite_rank = finding->rank < 0 ? engine::nobody : static_cast<std::uint32_t>(finding->rank);
    context_.layouts[finding->unit].ranges_of(Training::trainable, {finding->offset, finding->offset + 1},
                                              [&](std::size_t tensor, std::size_t first, std::size_t, std::size_t) {
                                                head_.nonfinite_tensor = static_cast<std::uint32_t>(tensor);
                                                head_.nonfinite_element = first;
                                              });
  }
  const std::span<std::byte> own = context_.memory.agreement_own.bytes();
  std::memcpy(own.data(), &head_, sizeof(head_));
  engine::write_norm_nodes(own, context_.layouts, leaves_, context_.rank());
}

void EngineCore::apply(const StepOptions& options, const engine::Verdict& verdict) {
  gather_->order_by_use(update_order_);
  engine::StepScalars scalars;
  scalars.lr = static_cast<double>(static_cast<float>(options.lr));
  scalars.applied_count = applied_count_;
  scalars.gradient_scale = verdict.gradient_scale;
  update_->enqueue(update_order_, scalars);
}

StepReport EngineCore::report_of(const engine::Verdict& verdict) {
  StepReport report;
  const CommunicatorCounters counters = context_.communicator->counters();
  report.step = step_count_;
  report.applied = verdict.skip == Skip::none;
  report.skip = verdict.skip;
  report.reason = verdict.reason;
  report.grad_norm = verdict.grad_norm;
  report.loss = verdict.loss;
  report.weight = verdict.weight;
  report.loss_scale = loss_scale();
  report.skipped_count = skipped_count_;
  report.device_bytes = context_.memory.device_bytes;
  report.host_bytes = context_.memory.host_bytes;
  report.nvme_bytes = context_.memory.nvme_bytes;
  report.moved_bytes = counters.moved_bytes - moved_bytes_before_;
  report.waits.gather_s = gather_->waited_s;
  report.waits.update_s = gather_->update_waited_s;
  report.waits.gradient_slot_s = reduce_->slot_waited_s;
  report.waits.reduce_s = reduce_->waited_s;
  report.waits.peer_s = context_.peer_waited_s;
  report.waits.activations_s = activations_->waited_s();
  report.waits.nvme_s = context_.nvme_waited_s + activations_->waited_s();
  if (context_.memory.nvme) {
    const TierCounters disk = context_.memory.nvme->counters();
    report.nvme = {disk.loaded_bytes - disk_before_.loaded_bytes, disk.stored_bytes - disk_before_.stored_bytes,
                   disk.busy_s - disk_before_.busy_s};
    disk_before_ = disk;
  }
  moved_bytes_before_ = counters.moved_bytes;
  return report;
}

void EngineCore::finish_step() {
  head_ = {};
  reduce_->end_round();
  gather_->waited_s = 0;
  gather_->update_waited_s = 0;
  activations_->reset_waited();
  reduce_->waited_s = 0;
  reduce_->slot_waited_s = 0;
  context_.peer_waited_s = 0;
  context_.nvme_waited_s = 0;
}

}  // namespace strata::detail
