#include "engine/forecast/lanes.h"

#include <algorithm>
#include <optional>

#include <strata/detail/assert.h>

namespace strata::engine {

std::size_t Lanes::add(std::size_t lane, Resource resource, double cost_s, const Needs& needs) {
  for (const std::size_t need : needs) STRATA_ASSERT(need == no_act || need < acts_.size());
  acts_.push_back({resource, cost_s, needs});
  lanes_[lane].push_back(acts_.size() - 1);
  return acts_.size() - 1;
}

std::vector<double> Lanes::run() const {
  constexpr double never = -1;
  std::vector<double> ends(acts_.size(), never);
  std::array<double, resource_count> free_at{};
  std::vector<std::size_t> next(lanes_.size(), 0);

  struct Times {
    double asked = 0;  // all that it needs is done
    double ready = 0;  // and so are those before it in its lane
  };
  // Of the lane's next act; nothing while it needs one that has not begun.
  const auto times_of = [&](std::size_t lane) -> std::optional<Times> {
    if (next[lane] == lanes_[lane].size()) return std::nullopt;
    Times times;
    for (const std::size_t need : acts_[lanes_[lane][next[lane]]].needs) {
      if (need == no_act) continue;
      if (ends[need] == never) return std::nullopt;
      times.asked = std::max(times.asked, ends[need]);
    }
    const double before = next[lane] == 0 ? 0 : ends[lanes_[lane][next[lane] - 1]];
    times.ready = std::max(times.asked, before);
    return times;
  };

  for (std::size_t done = 0; done < acts_.size(); ++done) {
    std::size_t best = lanes_.size();
    double best_start = 0;
    double best_claim = 0;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      const std::optional<Times> times = times_of(lane);
      if (!times) continue;
      const Act& act = acts_[lanes_[lane][next[lane]]];
      const double start = std::max(times->ready, free_at[static_cast<std::size_t>(act.resource)]);
      const double claim = act.resource == Resource::disk ? times->asked : times->ready;
      if (best < lanes_.size() && (start > best_start || (start == best_start && claim >= best_claim))) continue;
      best = lane;
      best_start = start;
      best_claim = claim;
    }
    STRATA_ASSERT(best < lanes_.size());  // acts need earlier ones alone, so one can always begin
    const std::size_t chosen = lanes_[best][next[best]++];
    ends[chosen] = best_start + acts_[chosen].cost_s;
    free_at[static_cast<std::size_t>(acts_[chosen].resource)] = ends[chosen];
  }
  return ends;
}

}  // namespace strata::engine
