#include "engine/planner.h"

#include <algorithm>
#include <utility>

namespace strata::engine {
namespace {

constexpr std::uint32_t prefetch_default = 2;
constexpr std::uint32_t slots_most = 6;   // one or two loading, one updated, the rest being stored
constexpr std::uint32_t slots_least = 2;  // load and store take turns with the update

TierKind tier_of(std::uint64_t Room::*budget) {
  return budget == &Room::device ? TierKind::device : budget == &Room::host ? TierKind::host : TierKind::nvme;
}

}  // namespace

std::uint64_t sum_bytes(const std::vector<PlanRow>& rows, TierKind tier) {
  std::uint64_t sum = 0;
  for (const PlanRow& row : rows) sum += row.tier == tier ? row.bytes : 0;
  return sum;
}

Planner::Planner(const StateShape& state, int world_size, const Options& options, const Machine& machine)
    : state_(state), world_size_(world_size), options_(options), shared_exchange_(machine.shared_exchange) {
  const auto unit_count = static_cast<std::uint32_t>(std::min<std::size_t>(state.layouts.size(), 1u << 16));
  const std::uint32_t useful = unit_count - std::min(unit_count, options.leases);
  prefetch_most_ = options.stage < 3 ? 0 : std::min(options.prefetch.value_or(prefetch_default), useful);
}

std::optional<PlannedMemory> Planner::fit(const Room& room) const {
  for (const TierKind activations : activation_homes(options_)) {
    for (const std::uint32_t slot_count : {0u, slots_most, slots_least}) {
      if (slot_count > 0 && !uses_nvme()) break;
      for (std::uint32_t prefetch = prefetch_most_ + 1; prefetch-- > 0;) {
        if (auto planned = fit_with(room, {activations, prefetch, slot_count})) return planned;
      }
    }
  }
  return std::nullopt;
}

std::optional<PlannedMemory> Planner::fit_least(const Room& room) const {
  for (const TierKind activations : activation_homes(options_)) {
    if (auto planned = fit_with(room, {activations, 0, 0})) return planned;
    if (!uses_nvme()) continue;
    if (auto planned = fit_with(room, {activations, 0, slots_least})) return planned;
  }
  return std::nullopt;
}

std::uint64_t Planner::least(Room room, std::uint64_t Room::*budget) const {
  if (budget != &Room::nvme) room.memory = unlimited_bytes;  // what is free is another matter
  const auto fits = [&](std::uint64_t bytes) {
    room.*budget = bytes;
    return fit_least(room).has_value();
  };
  std::uint64_t enough = page_bytes;
  while (!fits(enough)) {
    if (enough >= unlimited_bytes / 2) return unlimited_bytes;
    enough *= 2;
  }
  for (std::uint64_t too_little = enough == page_bytes ? 0 : enough / 2; enough - too_little > page_bytes;) {
    const std::uint64_t middle = too_little + (enough - too_little) / 2;
    (fits(middle) ? enough : too_little) = middle;
  }
  // To the byte: a shared part is not in whole pages.
  room.*budget = enough;
  const std::uint64_t used = sum_bytes(fit_least(room)->rows, tier_of(budget));
  return fits(used) ? used : enough;
}

PlannedMemory Planner::lowest() const {
  Placement placement = lowest_placement(state_, options_);
  const TierKind activations = placement.activations;
  return needs_of(std::move(placement), {activations, 0, uses_nvme() ? slots_least : 0});
}

PlannedMemory Planner::needs_of(Placement placement, const Fixed& fixed) const {
  PlannedMemory planned;
  placement.activations = fixed.activations;
  planned.needs = memory_needs({state_, world_size_, fixed.prefetch, fixed.slot_count}, placement, options_);
  planned.placement = std::move(placement);
  planned.rows = plan_rows(planned.needs, world_size_, shared_exchange_);
  planned.prefetch = fixed.prefetch;
  planned.slot_count = static_cast<std::uint32_t>(planned.needs.spill.slot_count);
  return planned;
}

// `floor` says how low each part may end up: slots and staging are reserved for that.
std::optional<PlannedMemory> Planner::fit_above(const Placement& floor, const Room& room, const Fixed& fixed) const {
  const PlannedMemory bottom = needs_of(floor, fixed);
  const MemoryNeeds& needs = bottom.needs;
  const std::uint64_t fixed_device = sum_bytes(bottom.rows, TierKind::device) - needs.published.total_bytes -
                                     needs.accumulators.total_bytes - needs.records.total_bytes;
  const std::uint64_t spill_host = sum_bytes(bottom.rows, TierKind::host) - needs.host_published.total_bytes -
                                   needs.host_accumulators.total_bytes - needs.host_records.total_bytes;
  const std::uint64_t activation_host = needs.activations.host_bytes(fixed.activations);
  const std::uint64_t fixed_host = fixed.slot_count == 0 ? activation_host : spill_host;
  const std::uint64_t fixed_nvme = needs.activations.nvme_bytes(fixed.activations);
  if (fixed_device > room.device || fixed_host > room.host || fixed_device + fixed_host > room.memory ||
      fixed_nvme > room.nvme) {
    return std::nullopt;
  }
  Room left = room;
  left.device -= fixed_device;
  left.host -= fixed_host;
  left.memory -= fixed_device + fixed_host;
  left.nvme = fixed.slot_count == 0 ? 0 : left.nvme - fixed_nvme;
  auto placement = place(state_, options_, left);
  if (!placement) return std::nullopt;
  PlannedMemory planned = needs_of(std::move(*placement), fixed);
  const std::uint64_t device_bytes = sum_bytes(planned.rows, TierKind::device);
  const std::uint64_t host_bytes = sum_bytes(planned.rows, TierKind::host);
  if (device_bytes > room.device || host_bytes > room.host || device_bytes + host_bytes > room.memory) {
    return std::nullopt;
  }
  return planned;
}

// First with slots and staging for the lowest that anything may lie in, then with what of it is needed: that leaves
// more room for the records.
std::optional<PlannedMemory> Planner::fit_with(const Room& room, const Fixed& fixed) const {
  Placement floor = lowest_placement(state_, options_);
  auto first = fit_above(floor, room, fixed);
  if (!first || fixed.slot_count == 0) return first;
  floor.published = first->placement.published;
  floor.accumulators = first->placement.accumulators;
  auto second = fit_above(floor, room, fixed);
  return second ? std::move(second) : std::move(first);
}

}  // namespace strata::engine
