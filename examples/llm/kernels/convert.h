// Between the dtypes of leases and those of the arithmetic.
#pragma once

#include <strata/dtype.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace llm {

// target[i] = source[i], exactly. `source` is f32, bf16 or f16.
void widen(const void* source, strata::Dtype dtype, std::span<float> target);

// To the nearest, ties to even. `target` is f32, bf16 or f16.
void narrow(std::span<const float> source, strata::Dtype dtype, void* target);

}  // namespace llm
