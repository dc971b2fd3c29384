// Where a byte lies when several files take turns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::offload {

struct StripePlace {
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t contiguous_bytes = 0;  // from here to the end of the stripe
};

struct StripeLayout {
  std::uint32_t file_count = 1;
  std::uint64_t stripe_bytes = 1;

  StripePlace place(std::uint64_t offset) const {
    if (file_count == 1) return {0, offset, ~std::uint64_t{0} - offset};
    const std::uint64_t stripe = offset / stripe_bytes, within = offset % stripe_bytes;
    return {static_cast<std::uint32_t>(stripe % file_count), stripe / file_count * stripe_bytes + within,
            stripe_bytes - within};
  }

  // Of every file, for `total_bytes` in all: equal shares, whole stripes where there are several.
  std::uint64_t file_bytes(std::uint64_t total_bytes) const {
    if (file_count == 1) return total_bytes;
    const std::uint64_t turn_bytes = stripe_bytes * file_count;
    return (total_bytes + turn_bytes - 1) / turn_bytes * stripe_bytes;
  }
};

}  // namespace strata::offload
