#include "offload/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace strata::offload {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace strata::offload
