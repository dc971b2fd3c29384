#include "units.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace llm {

namespace {

constexpr float deviation = 0.02f;

strata::Tensor tensor(const std::string& name, std::vector<std::int64_t> shape, strata::Decay decay) {
  strata::Tensor made;
  made.name = name;
  made.shape = std::move(shape);
  made.decay = decay;
  return made;
}

strata::Unit unit(std::string name, std::vector<strata::Tensor> tensors) {
  strata::Unit made;
  made.name = std::move(name);
  made.tensors = std::move(tensors);
  return made;
}

strata::Unit block_unit(const Config& config, std::int64_t layer) {
  const BlockNames names(layer);
  const std::int64_t hidden = config.hidden_size, inner = config.intermediate_size;
  const auto on = strata::Decay::on, off = strata::Decay::off;
  // q, k, v and gate, up stand side by side: where their sizes leave no gap, one product serves them all.
  return unit(fmt::format("block.{}", layer), {
                                                  tensor(names.input_norm, {hidden}, off),
                                                  tensor(names.post_norm, {hidden}, off),
                                                  tensor(names.q, {config.query_size(), hidden}, on),
                                                  tensor(names.k, {config.key_value_size(), hidden}, on),
                                                  tensor(names.v, {config.key_value_size(), hidden}, on),
                                                  tensor(names.o, {hidden, config.query_size()}, on),
                                                  tensor(names.gate, {inner, hidden}, on),
                                                  tensor(names.up, {inner, hidden}, on),
                                                  tensor(names.down, {hidden, inner}, on),
                                              });
}

bool is_norm(std::string_view name) { return name.ends_with("norm.weight"); }

}  // namespace

BlockNames::BlockNames(std::int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  input_norm = prefix + "input_layernorm.weight";
  q = prefix + "self_attn.q_proj.weight";
  k = prefix + "self_attn.k_proj.weight";
  v = prefix + "self_attn.v_proj.weight";
  o = prefix + "self_attn.o_proj.weight";
  post_norm = prefix + "post_attention_layernorm.weight";
  gate = prefix + "mlp.gate_proj.weight";
  up = prefix + "mlp.up_proj.weight";
  down = prefix + "mlp.down_proj.weight";
}

std::vector<strata::Unit> make_units(const Config& config) {
  std::vector<strata::Unit> units;
  const std::int64_t hidden = config.hidden_size, vocab = config.vocab_size;
  units.push_back(unit("embed", {tensor(embed_name, {vocab, hidden}, strata::Decay::off)}));
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) units.push_back(block_unit(config, layer));
  strata::Unit head = unit("head", {tensor(norm_name, {hidden}, strata::Decay::off)});
  if (!config.tie_word_embeddings) head.tensors.push_back(tensor(head_name, {vocab, hidden}, strata::Decay::on));
  units.push_back(std::move(head));
  return units;
}

strata::Initializer make_initializer(std::uint64_t seed) {
  return [seed](const strata::Tensor& tensor, std::size_t first, std::span<float> values) {
    if (is_norm(tensor.name)) {
      std::fill(values.begin(), values.end(), 1.0f);
    } else {
      strata::fill_normal(values, seed, tensor.name, first, deviation);
    }
  };
}

}  // namespace llm
