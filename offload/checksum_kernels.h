// XXH3 compiled for one instruction set each; all give the same sums.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::offload {

using ChecksumKernel = std::uint64_t (*)(const void* bytes, std::size_t size, std::uint64_t seed);

std::uint64_t checksum_baseline(const void* bytes, std::size_t size, std::uint64_t seed);

// REQUIRES a processor that has them. Only in builds for x86-64.
std::uint64_t checksum_avx2(const void* bytes, std::size_t size, std::uint64_t seed);
std::uint64_t checksum_avx512(const void* bytes, std::size_t size, std::uint64_t seed);

}  // namespace strata::offload
