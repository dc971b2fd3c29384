// Copies of what this core does not read again soon.
#pragma once

#include <cstddef>

namespace strata::sharding {

inline constexpr std::size_t stream_copy_bytes = std::size_t{256} << 10;

// Like memcpy; from `stream_copy_bytes` on, past the caches.
void large_copy(void* target, const void* source, std::size_t bytes);

// Writes past the caches at any size. Complete for peers once this thread has published anything with release order.
void stream_copy(void* target, const void* source, std::size_t bytes);

}  // namespace strata::sharding
