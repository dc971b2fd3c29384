// A model's tensors in plain memory, as the decoder reads and writes them without an engine.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "config.h"
#include "decoder.h"
#include "kernels/convert.h"
#include "parameters.h"
#include "units.h"

namespace llm::test {

// All tensors of a model, in one dtype.
class PlainTensors final : public ParameterSource, public GradientTarget {
 public:
  explicit PlainTensors(strata::Dtype dtype) : dtype_(dtype) {}

  void set(const std::string& name, std::span<const float> values) {
    std::vector<std::byte>& to = tensors_[name];
    to.resize(values.size() * strata::bytes_per_element(dtype_));
    narrow(values, dtype_, to.data());
  }
  // Filled with bytes that are NaN in every dtype: what a gradient leaves unwritten shows.
  void reserve(const std::string& name, std::size_t count) {
    tensors_[name].assign(count * strata::bytes_per_element(dtype_), std::byte{0xFF});
  }
  std::vector<float> values(const std::string& name) const {
    const std::vector<std::byte>& from = tensors_.at(name);
    std::vector<float> widened(from.size() / strata::bytes_per_element(dtype_));
    widen(from.data(), dtype_, widened);
    return widened;
  }

  strata::Dtype dtype() const override { return dtype_; }
  std::span<const std::byte> bytes(std::string_view tensor) const override { return tensors_.find(tensor)->second; }
  std::span<std::byte> bytes(std::string_view tensor) override { return tensors_.find(tensor)->second; }

 private:
  strata::Dtype dtype_;
  std::map<std::string, std::vector<std::byte>, std::less<>> tensors_;
};

inline void visit_tensors(const Config& config, const std::function<void(const strata::Tensor&, std::size_t)>& visit) {
  for (const strata::Unit& unit : make_units(config)) {
    for (const strata::Tensor& tensor : unit.tensors) {
      std::size_t count = 1;
      for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
      visit(tensor, count);
    }
  }
}

// Norms near 1, all else normal with a deviation that gives every part of the model something to do.
inline std::map<std::string, std::vector<float>, std::less<>> random_parameters(const Config& config, unsigned seed,
                                                                                float deviation = 0.2f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::map<std::string, std::vector<float>, std::less<>> made;
  visit_tensors(config, [&](const strata::Tensor& tensor, std::size_t count) {
    std::vector<float>& values = made[tensor.name];
    values.resize(count);
    const bool is_norm = tensor.name.ends_with("norm.weight");
    for (float& value : values) value = is_norm ? 1.0f + 0.1f * normal(generator) : deviation * normal(generator);
  });
  return made;
}

// Decoder, parameters and gradients; the tied head's two gradients are summed by run(), as the engine does.
struct PlainModel {
  PlainModel(const Config& of, const DecoderOptions& options,
             const std::map<std::string, std::vector<float>, std::less<>>& values)
      : config(of),
        decoder(make_decoder(of, options)),
        parameters(options.parameters),
        gradients(options.gradients),
        head_gradients(options.gradients) {
    for (const auto& [name, tensor] : values) {
      parameters.set(name, tensor);
      gradients.reserve(name, tensor.size());
      head_gradients.reserve(name, tensor.size());
    }
  }

  HeadParameters head() const { return {parameters, parameters}; }

  void forward(std::span<const std::int32_t> tokens, std::size_t batch) {
    decoder->embed(parameters, tokens, batch);
    for (std::size_t l = 0; l < layer_count(); ++l) decoder->forward_block(l, parameters);
  }

  // Loss and all gradients.
  LossSum run(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets, std::size_t batch,
              double loss_scale = 1) {
    forward(tokens, batch);
    const LossSum loss = decoder->train_head(head(), targets, loss_scale,
                                             {gradients, config.tie_word_embeddings ? head_gradients : gradients});
    for (std::size_t l = layer_count(); l-- > 0;) decoder->backward_block(l, parameters, gradients);
    decoder->backward_embed(gradients);
    return loss;
  }

  std::vector<float> gradient(const std::string& name) const {
    std::vector<float> sum = gradients.values(name);
    if (config.tie_word_embeddings && name == embed_name) {
      const std::vector<float> other = head_gradients.values(name);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    }
    return sum;
  }

  std::size_t layer_count() const { return static_cast<std::size_t>(config.num_hidden_layers); }

  Config config;
  std::unique_ptr<Decoder> decoder;
  PlainTensors parameters, gradients, head_gradients;
};

}  // namespace llm::test
