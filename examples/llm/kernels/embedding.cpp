#include "kernels/embedding.h"

#include <algorithm>

#include "kernels/convert.h"
#include "parallel.h"

namespace llm {

void embedding_forward(const void* table, strata::Dtype dtype, std::span<const std::int32_t> tokens,
                       std::size_t columns, float* x) {
  const std::size_t row_bytes = columns * strata::bytes_per_element(dtype);
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    const auto* source = static_cast<const std::byte*>(table) + static_cast<std::size_t>(tokens[row]) * row_bytes;
    widen(source, dtype, {x + row * columns, columns});
  }
}

void embedding_backward(const float* dx, std::span<const std::int32_t> tokens, std::size_t columns,
                        std::span<float> dtable) {
  constexpr std::size_t zeroed_per_range = 1 << 16;
  parallel_ranges(dtable.size(), zeroed_per_range, [&](std::size_t first, std::size_t last) {
    std::fill(dtable.begin() + static_cast<std::ptrdiff_t>(first), dtable.begin() + static_cast<std::ptrdiff_t>(last),
              0.0f);
  });
  const std::size_t parts = static_cast<std::size_t>(thread_count());
  parallel_ranges(parts, 1, [&](std::size_t part, std::size_t) {
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      const auto token = static_cast<std::size_t>(tokens[row]);
      if (token % parts != part) continue;
      const float* source = dx + row * columns;
      float* target = dtable.data() + token * columns;
      for (std::size_t i = 0; i < columns; ++i) target[i] += source[i];
    }
  });
}

}  // namespace llm
