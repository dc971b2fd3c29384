#include <strata/plan.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include <strata/bytes.h>
#include <strata/error.h>
#include "engine/forecast/step_traffic.h"
#include "engine/planner.h"
#include "engine/unit_check.h"

namespace strata {
namespace {

using engine::unlimited_bytes;

constexpr std::uint32_t chunk_most_count = 1u << 20;
constexpr std::uint32_t chunk_least_count = 2048;
constexpr double free_memory_share = 0.9;

std::string_view to_string(TierKind tier) {
  switch (tier) {
    case TierKind::device: return "device";
    case TierKind::host: return "host";
    case TierKind::nvme: return "nvme";
  }
  return "?";
}

// The largest power of two that leaves room for four slots within a quarter of the budget.
std::uint32_t choose_chunk(const Options& options, std::uint64_t budget_bytes, std::size_t record_bytes) {
  if (options.chunk) return *options.chunk;
  std::uint32_t chunk_count = chunk_most_count;
  while (chunk_count > chunk_least_count && 4ull * chunk_count * record_bytes > budget_bytes / 4) chunk_count /= 2;
  return chunk_count;
}

// Hard limits of this rank. Where device and host are one memory and a budget is not given, both share what is free.
engine::Room budgets_of(const Options& options, const Machine& machine) {
  const auto share = [](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(free_memory_share * static_cast<double>(bytes));
  };
  engine::Room room;
  room.nvme = options.nvme_dirs.empty() ? 0 : options.nvme_memory_bytes.value_or(share(machine.nvme_free_bytes));
  const std::uint64_t pool = share(machine.device_free_bytes);
  if (!machine.device_is_host) {
    room.device = options.device_memory_bytes.value_or(pool);
    room.host = options.host_memory_bytes.value_or(share(machine.host_free_bytes));
    room.memory = unlimited_bytes;
    return room;
  }
  const auto rest_of_pool = [&](const std::optional<std::uint64_t>& other) {
    return other ? pool - std::min(pool, *other) : pool;
  };
  room.device = options.device_memory_bytes.value_or(rest_of_pool(options.host_memory_bytes));
  room.host = options.host_memory_bytes.value_or(rest_of_pool(options.device_memory_bytes));
  const bool both_given = options.device_memory_bytes && options.host_memory_bytes;
  room.memory = both_given
                    ? unlimited_bytes
                    : std::max({pool, options.device_memory_bytes.value_or(0), options.host_memory_bytes.value_or(0)});
  return room;
}

struct Prediction {
  int world_size;
  const Options& options;
  const MachineSpeed& speed;
};

void predict(Plan& plan, std::span<const Unit> units, const engine::StateShape& state,
             const engine::PlannedMemory& memory, const Prediction& from) {
  const bool known = std::any_of(units.begin(), units.end(), [](const Unit& unit) { return unit.forward_s > 0; });
  if (!known) return;
  const auto seconds_of = [&](std::uint32_t micro_batch_count) {
    const engine::TrafficShape shape{from.world_size, memory.prefetch, memory.slot_count, micro_batch_count};
    return engine::predict_step_s(engine::step_traffic(units, state, memory.placement, shape, from.options),
                                  from.speed);
  };
  plan.predicted_step_s = seconds_of(1);
  plan.predicted_micro_batch_s = seconds_of(2) - plan.predicted_step_s;
}

// Names the budget that, raised alone, is enough; else the table of what needs what.
[[noreturn]] void refuse_budget(Plan& plan, const engine::Planner& planner, const engine::Room& room,
                                const Options& options) {
  plan.rows = planner.lowest().rows;
  const auto remedy = [&](std::uint64_t engine::Room::*budget, const std::string& option, std::uint64_t given) {
    const std::uint64_t least = planner.least(room, budget);
    if (least == unlimited_bytes) return;
    throw Error(ErrorCode::out_of_budget,
                fmt::format("{} is {} for each rank, but these units need at least {} ({} bytes): raise it to that, "
                            "shard further (--strata-stage, more ranks), lower --strata-leases, or give a lower tier "
                            "room (--strata-host-memory, --strata-nvme-dir).\n{}",
                            option, format_bytes(given), format_bytes(least), least, plan.table()));
  };
  remedy(&engine::Room::device, "--strata-device-memory", room.device);
  remedy(&engine::Room::host, "--strata-host-memory", room.host);
  remedy(&engine::Room::nvme, fmt::format("--strata-nvme-memory (free in {})", fmt::join(options.nvme_dirs, ", ")),
         room.nvme);
  throw Error(ErrorCode::out_of_budget,
              fmt::format("these units need more than --strata-device-memory {}, --strata-host-memory {} and "
                          "--strata-nvme-memory {} for each rank: raise more than one of them, or shard further "
                          "(--strata-stage, more ranks). What they need at least:\n{}",
                          format_bytes(room.device), format_bytes(room.host), format_bytes(room.nvme), plan.table()));
}

}  // namespace

std::uint64_t Plan::total_bytes(TierKind tier) const { return engine::sum_bytes(rows, tier); }

std::string Plan::table() const {
  std::string text = fmt::format("{:<24} {:<7} {:<8} {:>12}\n", "what", "tier", "owner", "per rank");
  auto line = std::back_inserter(text);
  for (const PlanRow& row : rows) {
    fmt::format_to(line, "{:<24} {:<7} {:<8} {:>12}\n", row.what, to_string(row.tier),
                   row.ownership == Ownership::private_memory ? "private" : "shared", format_bytes(row.bytes));
  }
  for (const TierKind tier : {TierKind::device, TierKind::host, TierKind::nvme}) {
    const std::uint64_t sum = total_bytes(tier);
    if (sum == 0 && tier != TierKind::device) continue;
    fmt::format_to(line, "{:<24} {:<7} {:<8} {:>12}", "total", to_string(tier), "", format_bytes(sum));
    fmt::format_to(line, "  of {}",
                   format_bytes(tier == TierKind::device ? device_budget_bytes
                                : tier == TierKind::host ? host_budget_bytes
                                                         : nvme_budget_bytes));
    text += '\n';
  }
  fmt::format_to(line,
                 "{} parameters, {} of them trained; {} units gathered ahead; chunks of {} elements; {} threads\n",
                 parameter_count, trainable_count, prefetch, chunk_count, threads);
  if (predicted_step_s > 0) fmt::format_to(line, "a step should take {:.3g} s\n", predicted_step_s);
  return text;
}

Plan make_plan(std::span<const Unit> units, const Optimizer& optimizer, int world_size, const Options& options,
               const Machine& machine) {
  return engine::make_plan_and_memory(units, optimizer, world_size, options, machine).plan;
}

engine::PlanAndMemory engine::make_plan_and_memory(std::span<const Unit> units, const Optimizer& optimizer,
                                                   int world_size, const Options& options, const Machine& machine) {
  validate(options);
  engine::check_units(units);
  if (world_size < 1) throw Error(ErrorCode::invalid_argument, fmt::format("world size {} is below 1", world_size));

  Plan plan;
  std::vector<sharding::FlatLayout> layouts;
  for (const Unit& unit : units) {
    layouts.emplace_back(unit, world_size);
    for (const Tensor& tensor : unit.tensors) {
      plan.parameter_count += tensor.element_count();
      if (tensor.training == Training::trainable) plan.trainable_count += tensor.element_count();
    }
  }
  const engine::Room room = budgets_of(options, machine);
  plan.device_budget_bytes = room.device;
  plan.host_budget_bytes = room.host;
  plan.nvme_budget_bytes = room.nvme;
  const std::size_t moment_count = optimizer.moment_names().size();
  const std::uint64_t memory_bytes =
      std::min(room.device + std::min(room.host, unlimited_bytes - room.device), room.memory);
  plan.chunk_count = choose_chunk(options, memory_bytes, sizeof(float) * (1 + moment_count));
  const std::uint32_t ranks_here = std::max<std::uint32_t>(machine.local_rank_count, 1);
  plan.threads = options.threads.value_or(std::max<std::uint32_t>(machine.core_count / ranks_here, 1));

  const engine::StateShape state{layouts, moment_count, plan.chunk_count};
  const engine::Planner planner(state, world_size, options, machine);
  auto planned = planner.fit(room);
  if (!planned) refuse_budget(plan, planner, room, options);
  plan.least_device_bytes = planner.least(room, &engine::Room::device);
  plan.rows = planned->rows;
  plan.prefetch = planned->prefetch;
  plan.slot_count = planned->slot_count;
  predict(plan, units, state, *planned, {.world_size = world_size, .options = options, .speed = machine.speed});
  return {std::move(plan), std::move(*planned)};
}

}  // namespace strata
