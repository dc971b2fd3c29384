// Copies what nobody reads from this core's cache again.
#pragma once

#include <cstddef>

namespace strata::sharding {

// Like memcpy; from `stream_copy_bytes` on it writes past the caches. Complete for peers once this thread has published
// anything with release order.
void stream_copy(void* target, const void* source, std::size_t bytes);

inline constexpr std::size_t stream_copy_bytes = std::size_t{1} << 20;

}  // namespace strata::sharding
