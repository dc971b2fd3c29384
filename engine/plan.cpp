#include <strata/plan.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include <strata/bytes.h>
#include <strata/error.h>
#include "engine/memory_needs.h"
#include "engine/unit_check.h"

namespace strata {
namespace {

constexpr std::uint32_t prefetch_default = 2;
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

std::uint64_t sum_bytes(const std::vector<PlanRow>& rows, TierKind tier) {
  std::uint64_t sum = 0;
  for (const PlanRow& row : rows) sum += row.tier == tier ? row.bytes : 0;
  return sum;
}

// The largest power of two that leaves room for four slots within a quarter of the budget.
std::uint32_t choose_chunk(const Options& options, std::uint64_t budget_bytes, std::size_t record_bytes) {
  if (options.chunk) return *options.chunk;
  std::uint32_t chunk_count = chunk_most_count;
  while (chunk_count > chunk_least_count && 4ull * chunk_count * record_bytes > budget_bytes / 4) chunk_count /= 2;
  return chunk_count;
}

[[noreturn]] void refuse_budget(const Plan& plan) {
  throw Error(
      ErrorCode::out_of_budget,
      fmt::format(
          "--strata-device-memory is {} for each rank, but these units need at least {} ({} bytes): raise it to "
          "that, shard further (--strata-stage, more ranks), or lower --strata-leases.\n{}",
          format_bytes(plan.device_budget_bytes), format_bytes(plan.least_device_bytes), plan.least_device_bytes,
          plan.table()));
}

}  // namespace

std::uint64_t Plan::total_bytes(TierKind tier) const { return sum_bytes(rows, tier); }

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
    if (tier == TierKind::device) fmt::format_to(line, "  of {}", format_bytes(device_budget_bytes));
    text += '\n';
  }
  fmt::format_to(line,
                 "{} parameters, {} of them trained; {} units gathered ahead; chunks of {} elements; {} threads\n",
                 parameter_count, trainable_count, prefetch, chunk_count, threads);
  return text;
}

Plan make_plan(std::span<const Unit> units, const Optimizer& optimizer, int world_size, const Options& options,
               const Machine& machine) {
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
  plan.device_budget_bytes = options.device_memory_bytes.value_or(
      static_cast<std::uint64_t>(free_memory_share * static_cast<double>(machine.device_free_bytes)));
  const std::size_t moment_count = optimizer.moment_names().size();
  plan.chunk_count = choose_chunk(options, plan.device_budget_bytes, sizeof(float) * (1 + moment_count));
  const std::uint32_t ranks_here = std::max<std::uint32_t>(machine.local_rank_count, 1);
  plan.threads = options.threads.value_or(std::max<std::uint32_t>(machine.core_count / ranks_here, 1));

  const auto rows_with = [&](std::uint32_t prefetch) {
    const engine::MemoryShape shape{layouts, world_size, moment_count, prefetch};
    return engine::plan_rows(engine::memory_needs(shape, options), world_size, machine.shared_exchange);
  };
  plan.rows = rows_with(0);
  plan.least_device_bytes = plan.total_bytes(TierKind::device);
  if (plan.least_device_bytes > plan.device_budget_bytes) refuse_budget(plan);
  if (options.stage < 3) return plan;
  const auto unit_count = static_cast<std::uint32_t>(std::min<std::size_t>(units.size(), 1u << 16));
  const std::uint32_t useful = unit_count - std::min(unit_count, options.leases);
  for (std::uint32_t wish = std::min(options.prefetch.value_or(prefetch_default), useful); wish > 0; --wish) {
    std::vector<PlanRow> rows = rows_with(wish);
    if (sum_bytes(rows, TierKind::device) > plan.device_budget_bytes) continue;
    plan.rows = std::move(rows);
    plan.prefetch = wish;
    break;
  }
  return plan;
}

}  // namespace strata
