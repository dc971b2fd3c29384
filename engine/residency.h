// Which gathered unit lies in which slot. A function of the caller's calls alone, and so alike on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/schedule.h"

namespace strata::engine {

class Residency {
 public:
  Residency() = default;
  Residency(std::vector<std::size_t> slot_bytes, std::vector<std::size_t> unit_bytes);

  std::size_t slot_of(std::size_t unit) const { return slot_of_[unit]; }  // `never` when not resident
  std::uint32_t holder_count(std::size_t unit) const { return holders_[unit]; }
  std::size_t held_unit_count() const { return held_unit_count_; }

  void hold(std::size_t unit);
  void release(std::size_t unit);

  // A slot for a unit that is not resident: an empty one, else the one whose unit is needed last by the forecast. Only
  // slots that nobody holds, and for a prefetch only those whose unit is needed later than `unit`. `never` if there is
  // none.
  enum class For { caller, prefetch };
  std::size_t place(std::size_t unit, const Schedule& schedule, For purpose);

  void forget_all();  // the values have changed; holders must be gone

 private:
  struct Slot {
    std::size_t bytes = 0;
    std::size_t unit = never;
    std::uint64_t used_at = 0;
  };

  bool better(const Slot& candidate, const Slot& best, const Schedule& schedule) const;

  std::vector<Slot> slots_;
  std::vector<std::size_t> unit_bytes_;
  std::vector<std::size_t> slot_of_;
  std::vector<std::uint32_t> holders_;
  std::size_t held_unit_count_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace strata::engine
