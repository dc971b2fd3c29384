// Rows of a table, and the sum of gradients back into them.
#pragma once

#include <strata/dtype.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace llm {

// x (rows, columns) = table (vocab, columns) [token of each row], widened to f32.
void embedding_forward(const void* table, strata::Dtype dtype, std::span<const std::int32_t> tokens,
                       std::size_t columns, float* x);

// dtable (vocab, columns) = sums of dx (rows, columns) over the rows of each token; 0 for a token that occurs nowhere.
// Each row of the table is added up in the order of `tokens`.
void embedding_backward(const float* dx, std::span<const std::int32_t> tokens, std::size_t columns,
                        std::span<float> dtable);

}  // namespace llm
