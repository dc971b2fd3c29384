// The order in which the caller gathers units: recorded in one round, foretold in the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace strata::engine {

inline constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

// A round is what lies between two steps. A caller that strays is followed: the forecast goes on from the next place in
// the recorded round where the gathered unit stands. A function of the caller's calls alone, and so alike on all ranks.
class Schedule {
 public:
  void note(std::size_t unit);  // the caller gathers this unit
  void end_round();

  // The unit that the recorded round has `ahead` gathers behind the last one noted (0 = the very next); `never` beyond
  // its end.
  std::size_t foretell(std::size_t ahead) const {
    return cursor_ + ahead < recorded_.size() ? recorded_[cursor_ + ahead] : never;
  }

  // How many gathers ahead the unit comes next; `never` if not in this round.
  std::size_t distance(std::size_t unit) const;

  // Units in the order of their first gather in the recorded round.
  const std::vector<std::uint32_t>& recorded() const { return recorded_; }

 private:
  std::vector<std::uint32_t> recorded_;
  std::vector<std::uint32_t> current_;
  std::size_t cursor_ = 0;  // in recorded_: the next gather expected
};

}  // namespace strata::engine
