#include "optim/split_master.h"

#include <bit>
#include <cstddef>

namespace strata::optim {

void join_masters(std::span<const std::uint16_t> published, std::span<const std::uint16_t> remainders, float* masters) {
  const std::uint16_t* const high = published.data();
  const std::uint16_t* const low = remainders.data();
  const std::size_t count = published.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t below = low[i];
    const std::uint32_t above = high[i] - (below >> 15);
    masters[i] = std::bit_cast<float>((above << 16) | below);
  }
}

void split_masters(std::span<const float> masters, std::uint16_t* remainders) {
  const std::size_t count = masters.size();
  for (std::size_t i = 0; i < count; ++i) {
    remainders[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(masters[i]));
  }
}

}  // namespace strata::optim
