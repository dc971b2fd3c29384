// XXH3 of 64 bits: the same on every processor, as fast as memory on most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::offload {

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace strata::offload
