#include "engine/engine_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/handshake.h"
#include "engine/planner.h"
#include "engine/retune.h"
#include "engine/spill.h"
#include "engine/unit_check.h"
#include "offload/nvme_files.h"

namespace strata::engine {
namespace {

void check_arguments(EngineContext& context) {
  if (!context.optimizer) throw Error(ErrorCode::invalid_argument, "the engine needs an optimizer, as strata::adamw()");
  validate(context.options);
  check_units(context.units);
  if (context.options.device.kind != DeviceKind::cpu) {
    throw Error(ErrorCode::unsupported,
                fmt::format("--strata-device {}: this build has the cpu only", to_string(context.options.device)));
  }
  for (std::size_t i = 0; i < context.units.size(); ++i) context.units[i].index = i;
}

// All ranks plan with the least budget, so that all take the same sizes.
void make_common_plan(EngineContext& context) {
  Communicator& communicator = *context.communicator;
  Machine machine = measure_machine(static_cast<std::uint32_t>(communicator.size()));
  machine.nvme_free_bytes = offload::nvme_free_bytes(context.options.nvme_dirs) / machine.local_rank_count;
  for (std::uint64_t* bytes : {&machine.device_free_bytes, &machine.host_free_bytes, &machine.nvme_free_bytes}) {
    *bytes = least_over_ranks(communicator, *bytes);
  }
  if (std::any_of(context.units.begin(), context.units.end(), [](const Unit& u) { return u.forward_s > 0; })) {
    machine.speed = probe_machine(communicator, context.options);
  }
  Options options = context.options;
  for (auto* budget : {&options.device_memory_bytes, &options.host_memory_bytes, &options.nvme_memory_bytes}) {
    constexpr std::uint64_t not_given = ~std::uint64_t{0};
    const std::uint64_t least_bytes = least_over_ranks(communicator, budget->value_or(not_given));
    if (least_bytes != not_given) *budget = least_bytes;
  }
  PlanAndMemory made = make_plan_and_memory(context.units, *context.optimizer, communicator.size(), options, machine);
  context.plan = std::move(made.plan);
  context.needs = std::move(made.memory.needs);
  context.placement = std::move(made.memory.placement);
  for (const Unit& unit : context.units) context.layouts.emplace_back(unit, communicator.size());
}

offload::PrivateMemory take_private(EngineMemory& memory, const Buffer& buffer) {
  memory.device_bytes += buffer.total_bytes;
  return offload::PrivateMemory(buffer.total_bytes);
}

offload::PrivateMemory take_host(EngineMemory& memory, std::size_t bytes) {
  memory.host_bytes += bytes;
  return offload::PrivateMemory(bytes);
}

ExchangeBlock take_exchange(EngineContext& context, const Buffer& buffer, Sharing sharing) {
  if (buffer.total_bytes == 0) return {};
  context.memory.device_bytes += sharing == Sharing::common
                                     ? owned_share_bytes(buffer.total_bytes, context.world_size(), true)
                                     : buffer.total_bytes;
  return context.communicator->allocate(buffer.total_bytes, sharing);
}

void take_memory(EngineContext& context) {
  EngineMemory& memory = context.memory;
  const MemoryNeeds& needs = context.needs;
  const auto either = [&](bool in_exchange, const Buffer& buffer, ExchangeBlock& block, offload::PrivateMemory& own) {
    if (in_exchange) {
      block = take_exchange(context, buffer, Sharing::per_rank);
    } else {
      own = take_private(memory, buffer);
    }
  };
  either(needs.published_in_exchange, needs.published, memory.published_exchange, memory.published_private);
  either(needs.grad_slots_in_exchange, needs.grad_slots, memory.grad_slots_exchange, memory.grad_slots_private);
  either(needs.accumulators_in_exchange, needs.accumulators, memory.accumulators_exchange, memory.accumulators_private);
  memory.param_slots = take_exchange(context, needs.param_slots, Sharing::common);
  memory.records = take_private(memory, needs.records);
  memory.host_published = take_host(memory, needs.host_published.total_bytes);
  memory.host_accumulators = take_host(memory, needs.host_accumulators.total_bytes);
  memory.host_records = take_host(memory, needs.host_records.total_bytes);
  memory.norm_leaves = take_private(memory, needs.norm_leaves);
  memory.agreement_own = take_private(memory, needs.agreement_own);
  memory.agreement_all = take_exchange(context, needs.agreement_all, Sharing::common);
}

void cut_published(EngineContext& context, std::size_t unit) {
  UnitState& state = context.states[unit];
  const TierKind home = context.placement.published[unit];
  state.published_on_nvme = home == TierKind::nvme;
  if (state.published_on_nvme) return;
  const std::size_t element_bytes = bytes_per_element(context.options.dtype);
  state.published = home == TierKind::device
                        ? context.memory.published() + context.needs.published.offsets[unit]
                        : context.memory.host_published.bytes().data() + context.needs.host_published.offsets[unit];
  const bool whole = context.options.stage < 3;
  state.published_shard = state.published + (whole ? state.state.begin : 0) * element_bytes;
  state.frozen = state.published + (whole ? context.layouts[unit].frozen_begin() * element_bytes
                                          : context.frozen_shard_offset_bytes(unit));
}

void cut_accumulator(EngineContext& context, std::size_t unit) {
  UnitState& state = context.states[unit];
  const TierKind home = context.placement.accumulators[unit];
  state.accumulator_on_nvme = home == TierKind::nvme;
  if (state.accumulator_on_nvme) return;
  std::byte* const at =
      home == TierKind::device
          ? context.memory.accumulators() + context.needs.accumulators.offsets[unit]
          : context.memory.host_accumulators.bytes().data() + context.needs.host_accumulators.offsets[unit];
  const std::size_t shard_begin = context.layouts[unit].shard(Training::trainable, context.rank()).begin;
  state.accumulator = reinterpret_cast<float*>(at);
  state.accumulator_shard = state.accumulator + (context.needs.accumulators_in_exchange ? shard_begin : 0);
}

void cut_memory(EngineContext& context) {
  const MemoryNeeds& needs = context.needs;
  const EngineMemory& memory = context.memory;
  context.states.resize(context.units.size());
  for (std::size_t i = 0; i < context.units.size(); ++i) {
    UnitState& state = context.states[i];
    state.state = state_range(context.layouts[i], context.options.stage, context.rank());
    cut_published(context, i);
    cut_accumulator(context, i);
    state.record_homes = context.placement.records[i];
    state.split_master = splits_master(context.options, context.placement.published[i]);
    state.records = reinterpret_cast<float*>(memory.records.bytes().data() + needs.records.offsets[i]);
    state.host_records = reinterpret_cast<float*>(memory.host_records.bytes().data() + needs.host_records.offsets[i]);
    state.norm_leaves = reinterpret_cast<double*>(memory.norm_leaves.bytes().data() + needs.norm_leaves.offsets[i]);
  }
}

// Neighbouring tensors of one group are one run, the gaps between them included: they hold zeros and stay so.
void group_runs(EngineContext& context) {
  for (std::size_t i = 0; i < context.units.size(); ++i) {
    UnitState& state = context.states[i];
    const std::size_t base = state.state.begin;
    context.layouts[i].ranges_of(Training::trainable, state.state,
                                 [&](std::size_t tensor, std::size_t, std::size_t offset, std::size_t count) {
                                   const Tensor& which = context.units[i].tensors[tensor];
                                   const std::size_t end = offset + count - base;
                                   if (!state.runs.empty() && state.runs.back().decay == which.decay &&
                                       state.runs.back().lr_factor == which.lr_factor) {
                                     state.runs.back().end = end;
                                     return;
                                   }
                                   state.runs.push_back({offset - base, end, which.decay, which.lr_factor});
                                 });
  }
}

}  // namespace

void index_tensors(EngineContext& context) {
  for (std::size_t i = 0; i < context.units.size(); ++i) {
    UnitState& state = context.states[i];
    state.tensor_index.clear();
    for (std::size_t t = 0; t < context.units[i].tensors.size(); ++t) {
      state.tensor_index.emplace(context.units[i].tensors[t].name, static_cast<std::uint32_t>(t));
    }
  }
}

void start(EngineContext& context, EngineParts parts, const Options& options, const Plan* held) {
  Communicator& communicator = parts.communicator;
  context.units = std::move(parts.units);
  context.optimizer = std::move(parts.optimizer);
  context.communicator = &communicator;
  context.options = options;
  if (options.help) throw Error(ErrorCode::ended, "--strata-help asks for this alone\n" + options_help());
  check_arguments(context);
  communicator.set_deadlines({options.timeout_s, options.call_timeout_s});
  compare_settings(communicator, settings_text(context.units, *context.optimizer, context.options));
  make_common_plan(context);
  if (options.plan_only) {
    throw Error(ErrorCode::ended, "--strata-plan asks for the plan alone\n" + context.plan.table());
  }
  if (held != nullptr) check_peak(*held, context.plan, context.options);
  take_memory(context);
  cut_memory(context);
  index_tensors(context);
  take_spill(context);
  group_runs(context);
}

void start_lanes(EngineContext& context) {
  Communicator* communicator = context.communicator;
  const auto beat_every =
      std::chrono::milliseconds(std::max(1, static_cast<int>(context.options.timeout_s * 1000 / 8)));
  const std::size_t capacity = context.lane_capacity();
  context.comm_lane = std::make_unique<Lane>(
      "strata-comm", capacity, [communicator] { communicator->beat(); }, beat_every);
  context.update_lane = std::make_unique<Lane>(
      "strata-update", capacity, [] {}, std::chrono::hours(1));
}

}  // namespace strata::engine
