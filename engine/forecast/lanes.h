// Acts in lanes: each lane in its order, each act after those it needs, one at a time on each resource.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace strata::engine {

enum class Resource : std::uint8_t { processor, disk };
inline constexpr std::size_t resource_count = 2;

inline constexpr std::size_t no_act = std::numeric_limits<std::size_t>::max();
using Needs = std::array<std::size_t, 4>;

// INVARIANT: an act needs only acts that were added before it.
class Lanes {
 public:
  explicit Lanes(std::size_t lane_count) : lanes_(lane_count) {}

  // Returns the act, for others to need; `needs` may hold no_act.
  std::size_t add(std::size_t lane, Resource resource, double cost_s, const Needs& needs);

  // When each act ends: of those that can begin, the earliest does. Of equally early ones the disk takes that which was
  // asked for first, since it has one queue; the processor that which became ready first, since its lanes take turns.
  // O(acts lanes).
  std::vector<double> run() const;

 private:
  struct Act {
    Resource resource = Resource::processor;
    double cost_s = 0;
    Needs needs{};
  };

  std::vector<Act> acts_;
  std::vector<std::vector<std::size_t>> lanes_;
};

}  // namespace strata::engine
