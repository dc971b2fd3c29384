#include "sampling.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace llm {

namespace {

std::int32_t choose(std::span<const float> logits, double temperature, std::mt19937_64& generator) {
  const auto best = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return static_cast<std::int32_t>(best - logits.begin());
  std::vector<double> weights(logits.size());
  std::transform(logits.begin(), logits.end(), weights.begin(),
                 [&](float logit) { return std::exp((static_cast<double>(logit) - *best) / temperature); });
  return static_cast<std::int32_t>(std::discrete_distribution<int>(weights.begin(), weights.end())(generator));
}

}  // namespace

std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt, const SamplingOptions& options,
                                 const NextLogits& next) {
  constexpr std::size_t padding_step = 32;
  std::mt19937_64 generator(options.seed);
  std::vector<std::int32_t> text = std::move(prompt), window;
  std::vector<float> logits(options.vocab_size);
  for (std::size_t i = 0; i < options.count; ++i) {
    const std::size_t seen = std::min(text.size(), options.window);
    window.assign(text.end() - static_cast<std::ptrdiff_t>(seen), text.end());
    window.resize(std::min(options.window, (seen + padding_step - 1) / padding_step * padding_step), 0);
    next(window, seen - 1, logits);
    text.push_back(choose(logits, options.temperature, generator));
  }
  return text;
}

std::string printable(std::span<const std::int32_t> bytes) {
  std::string text;
  for (const std::int32_t byte : bytes) {
    const bool shown = byte == '\n' || (byte >= 32 && byte < 127);
    text.push_back(shown ? static_cast<char>(byte) : '?');
  }
  return text;
}

}  // namespace llm
