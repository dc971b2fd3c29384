#include "engine/residency.h"

#include <utility>

#include <strata/detail/assert.h>

namespace strata::engine {

Residency::Residency(std::vector<std::size_t> slot_bytes, std::vector<std::size_t> unit_bytes)
    : unit_bytes_(std::move(unit_bytes)), slot_of_(unit_bytes_.size(), never), holders_(unit_bytes_.size(), 0) {
  for (const std::size_t bytes : slot_bytes) slots_.push_back({bytes, never, 0});
}

void Residency::hold(std::size_t unit) {
  if (holders_[unit]++ == 0) ++held_unit_count_;
  if (slot_of_[unit] != never) slots_[slot_of_[unit]].used_at = ++clock_;
}

void Residency::release(std::size_t unit) {
  STRATA_ASSERT(holders_[unit] > 0);
  if (--holders_[unit] == 0) --held_unit_count_;
}

// Empty before full; then needed later before sooner, used longer ago before lately; then the smaller slot.
bool Residency::better(const Slot& candidate, const Slot& best, const Schedule& schedule) const {
  const bool candidate_empty = candidate.unit == never;
  const bool best_empty = best.unit == never;
  if (candidate_empty != best_empty) return candidate_empty;
  if (!candidate_empty) {
    const std::size_t candidate_distance = schedule.distance(candidate.unit);
    const std::size_t best_distance = schedule.distance(best.unit);
    if (candidate_distance != best_distance) return candidate_distance > best_distance;
    return candidate.used_at < best.used_at;
  }
  return candidate.bytes < best.bytes;
}

std::size_t Residency::place(std::size_t unit, const Schedule& schedule, For purpose) {
  std::size_t best = never;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.bytes < unit_bytes_[unit]) continue;
    if (slot.unit != never && holders_[slot.unit] > 0) continue;
    if (best == never || better(slot, slots_[best], schedule)) best = i;
  }
  if (best == never) return never;
  Slot& chosen = slots_[best];
  if (chosen.unit != never) {
    if (purpose == For::prefetch && schedule.distance(chosen.unit) <= schedule.distance(unit)) return never;
    slot_of_[chosen.unit] = never;
  }
  chosen.unit = unit;
  chosen.used_at = ++clock_;
  slot_of_[unit] = best;
  return best;
}

void Residency::forget_all() {
  for (Slot& slot : slots_) slot.unit = never;
  for (std::size_t& slot : slot_of_) slot = never;
}

}  // namespace strata::engine
