#include "offload/checksum.h"

#include "offload/checksum_kernels.h"

namespace strata::offload {
namespace {

ChecksumKernel fastest_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return checksum_avx512;
  if (__builtin_cpu_supports("avx2")) return checksum_avx2;
#endif
  return checksum_baseline;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  static const ChecksumKernel kernel = fastest_kernel();
  return kernel(bytes.data(), bytes.size(), seed);
}

}  // namespace strata::offload
