#include "prediction.h"

#include <algorithm>
#include <chrono>
#include <vector>

namespace llm {

double predict_step_seconds(const Config& config, Decoder& decoder, std::size_t batch, std::size_t seq) {
  constexpr double products_share = 0.75;  // of a pass; attention and the passes over activations take the rest
  constexpr int trial_count = 3;
  const std::size_t rows = batch * seq;
  const auto hidden = static_cast<std::size_t>(config.hidden_size),
             inner = static_cast<std::size_t>(config.intermediate_size);
  const std::vector<float> x(rows * hidden, 1.0f), w(inner * hidden, 1.0f);
  std::vector<float> y(rows * inner);
  double least_s = 1e9;
  for (int trial = 0; trial < trial_count; ++trial) {
    const auto start = std::chrono::steady_clock::now();
    decoder.products().forward<float, float>({x.data(), rows, hidden}, {w.data(), inner, hidden},
                                             {y.data(), rows, inner});
    least_s = std::min(least_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double trial_flops = 2.0 * static_cast<double>(rows * hidden * inner);
  const double multiplied = static_cast<double>(
      config.parameter_count() - (config.tie_word_embeddings ? 0 : config.vocab_size * config.hidden_size));
  const double flops = 6.0 * multiplied * static_cast<double>(rows);
  return flops / trial_flops * least_s / products_share;
}

}  // namespace llm
