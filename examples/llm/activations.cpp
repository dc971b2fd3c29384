#include "activations.h"

#include <strata/dtype.h>

#include <algorithm>
#include <type_traits>

#include "kernels/attention.h"
#include "kernels/rmsnorm.h"
#include "parallel.h"

namespace llm {

namespace {

// Enough rows for the products to run at full speed, few enough that a large vocabulary's logits stay small.
std::size_t choose_head_rows(std::size_t vocab, std::size_t rows) {
  constexpr std::size_t elements_aim = std::size_t{1} << 24, least = 256, most = 2048;
  return std::min(rows, std::clamp(elements_aim / vocab, least, most));
}

}  // namespace

std::size_t largest_unit_count(const Config& config) {
  const std::int64_t block =
      config.hidden_size * (config.qkv_size() + config.query_size() + 3 * config.intermediate_size + 2);
  const std::int64_t head = (config.vocab_size + 1) * config.hidden_size;
  return static_cast<std::size_t>(std::max(block, head));
}

template <class A>
Activations<A>::Activations(const Config& config, const Capacity& capacity, Workspace& workspace) {
  constexpr bool f32 = std::is_same_v<A, float>;
  const std::size_t rows = capacity.rows();
  const auto hidden = static_cast<std::size_t>(config.hidden_size);
  const auto inner = static_cast<std::size_t>(config.intermediate_size);
  const auto vocab = static_cast<std::size_t>(config.vocab_size);
  const auto query = static_cast<std::size_t>(config.query_size());
  const auto heads = static_cast<std::size_t>(config.num_attention_heads);
  const auto head_dim = static_cast<std::size_t>(config.head_dim);

  layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (LayerActivations<A>& layer : layers) {
    if (capacity.recompute && &layer != &layers.front()) {
      layer = layers.front();
      continue;
    }
    layer.x = workspace.take<float>(rows * hidden);
    layer.h_attention = workspace.take<A>(rows * hidden);
    layer.rms_attention = workspace.take<float>(rows);
    layer.qkv = workspace.take<A>(rows * static_cast<std::size_t>(config.qkv_size()));
    layer.attended = workspace.take<A>(rows * query);
    layer.log_sums = workspace.take<float>(rows * heads);
    layer.x_middle = workspace.take<float>(rows * hidden);
    layer.h_mlp = workspace.take<A>(rows * hidden);
    layer.rms_mlp = workspace.take<float>(rows);
    layer.gate_up = workspace.take<A>(rows * 2 * inner);
  }
  delta = workspace.take<A>(rows * std::max(hidden, query));
  act = workspace.take<A>(rows * inner);
  x_final = workspace.take<float>(rows * hidden);
  h_final = workspace.take<A>(rows * hidden);
  rms_final = workspace.take<float>(rows);
  head_rows = choose_head_rows(vocab, rows);
  logits = workspace.take<float>(head_rows * vocab);
  losses = workspace.take<double>(rows);
  dx = workspace.take<float>(rows * hidden);
  if constexpr (f32) {
    dlogits = logits;
    dx_operand = dx;
  } else {
    dlogits = workspace.take<A>(head_rows * vocab);
    dx_operand = workspace.take<A>(rows * hidden);
  }
  dh = workspace.take<float>(rows * hidden);
  dact = workspace.take<A>(rows * inner);
  norm_partials = workspace.take<float>(norm_partial_count(rows) * hidden);
  attention_scratch =
      workspace.take<float>(static_cast<std::size_t>(thread_count()) * attention_scratch_count(capacity.seq, head_dim));
  cosine = workspace.take<float>(capacity.seq * head_dim / 2);
  sine = workspace.take<float>(capacity.seq * head_dim / 2);
  widened_count = capacity.widened ? largest_unit_count(config) : 2 * hidden;
  widened = workspace.take<float>(widened_count);
  gradients_count = capacity.staged_gradients ? largest_unit_count(config) : 0;
  gradients = workspace.take<float>(gradients_count);
}

template struct Activations<float>;
template struct Activations<strata::bf16>;

}  // namespace llm
