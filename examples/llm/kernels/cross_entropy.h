// Cross-entropy and its gradient in one pass over the logits of some rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace llm {

inline constexpr std::int32_t ignored_target = -100;

template <class Activation>
struct CrossEntropy {
  std::size_t rows = 0, vocab = 0;
  float* logits = nullptr;                // (rows, vocab), overwritten
  std::span<const std::int32_t> targets;  // (rows): 0 to vocab - 1, or ignored_target: no loss and gradient 0
  float scale = 1;                        // multiplies the gradients: loss scale / number of targets that count
  Activation* dlogits = nullptr;          // (rows, vocab); may be `logits`; null: only the losses
  double* losses = nullptr;               // (rows): log(sum(exp(logits))) - logits[target], unscaled
};

// Activation: float, strata::bf16.
template <class Activation>
void cross_entropy(const CrossEntropy<Activation>& pass);

}  // namespace llm
