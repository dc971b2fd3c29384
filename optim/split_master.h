// An f32 master in two halves: the published bf16 value, which is the master rounded half up in magnitude, and the
// master's lower 16 bits. Rounding up carried into the upper half exactly where the lower half is at least 0x8000, so
// both give the master back, bit for bit.
#pragma once

#include <cstdint>
#include <span>

namespace strata::optim {

// masters[i] from published[i] and remainders[i], which have the same count.
void join_masters(std::span<const std::uint16_t> published, std::span<const std::uint16_t> remainders, float* masters);

// remainders[i] = lower half of masters[i].
void split_masters(std::span<const float> masters, std::uint16_t* remainders);

}  // namespace strata::optim
