// The search for a plan that fits: prefetch as wished or less, nothing on nvme if it can be.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <strata/plan.h>
#include "engine/memory_needs.h"
#include "engine/placement.h"

namespace strata::engine {

inline constexpr std::uint64_t unlimited_bytes = std::uint64_t{1} << 62;

struct PlannedMemory {
  Placement placement;
  MemoryNeeds needs;
  std::vector<PlanRow> rows;
  std::uint32_t prefetch = 0;
  std::uint32_t slot_count = 0;
};

// What make_plan() makes of the same arguments, and the parts that its rows are the sum of.
struct PlanAndMemory {
  Plan plan;
  PlannedMemory memory;
};
PlanAndMemory make_plan_and_memory(std::span<const Unit> units, const Optimizer& optimizer, int world_size,
                                   const Options& options, const Machine& machine);

std::uint64_t sum_bytes(const std::vector<PlanRow>& rows, TierKind tier);

class Planner {
 public:
  // All outlive the planner.
  Planner(const StateShape& state, int world_size, const Options& options, const Machine& machine);

  std::optional<PlannedMemory> fit(const Room& room) const;

  // The least of one budget, the others given; `unlimited_bytes` when no budget is enough.
  std::uint64_t least(Room room, std::uint64_t Room::*budget) const;

  // All in the lowest tier that is allowed: for the table of a refusal.
  PlannedMemory lowest() const;

 private:
  bool uses_nvme() const { return !options_.nvme_dirs.empty(); }
  struct Fixed {  // before the state is placed
    TierKind activations = TierKind::device;
    std::uint32_t prefetch = 0;
    std::uint32_t slot_count = 0;  // 0: nothing of the state may lie on nvme
  };
  PlannedMemory needs_of(Placement placement, const Fixed& fixed) const;
  std::optional<PlannedMemory> fit_above(const Placement& floor, const Room& room, const Fixed& fixed) const;
  std::optional<PlannedMemory> fit_with(const Room& room, const Fixed& fixed) const;
  std::optional<PlannedMemory> fit_least(const Room& room) const;

  const StateShape& state_;
  const int world_size_;
  const Options& options_;
  const bool shared_exchange_;
  std::uint32_t prefetch_most_ = 0;
};

}  // namespace strata::engine
