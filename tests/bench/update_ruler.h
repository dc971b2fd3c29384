// The limit of an update: the same arrays read and written, the arithmetic removed.
#pragma once

#include <cstddef>
#include <cstdint>

#include <strata/optimizer.h>

namespace strata::bench {

// Loads gradient, master and `moment_count` moments, stores master and moments back as they were, and streams a
// published copy past the caches. REQUIRES piece.published on 64 bytes and piece.count a multiple of 64. Returns bits
// of the gradients, so that their loads are not left out.
std::uint32_t move_as_update(const UpdatePiece& piece, std::size_t moment_count);

// What that moves, in bytes an element: 30 for AdamW with f32 gradients and bf16 published.
std::size_t moved_bytes_per_element(const UpdatePiece& piece, std::size_t moment_count);

}  // namespace strata::bench
