// Text from a model, a token at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace llm {

struct SamplingOptions {
  std::size_t count = 160;   // tokens to add
  double temperature = 0.8;  // 0: always the most likely
  std::uint64_t seed = 1;
  std::size_t window = 256;  // tokens that the model sees at most
  std::size_t vocab_size = 0;
};

// Writes the logits (V) that follow tokens[last]; what stands behind `last` is padding.
using NextLogits = std::function<void(std::span<const std::int32_t> tokens, std::size_t last, std::span<float> out)>;

// The prompt and what follows. REQUIRES a prompt of at least one token. The sequence given to `next` is padded to whole
// multiples of 32 tokens, so that few shapes of product are made.
std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt, const SamplingOptions& options,
                                 const NextLogits& next);

// Bytes as text; what a terminal would not show as a character stands as '?'.
std::string printable(std::span<const std::int32_t> bytes);

}  // namespace llm
