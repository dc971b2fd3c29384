#include "offload/checksum_kernels.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace strata::offload {

std::uint64_t checksum_baseline(const void* bytes, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

}  // namespace strata::offload
