#include "prediction.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/convert.h"
#include "units.h"

namespace llm {

namespace {

constexpr std::size_t tensor_alignment_bytes = 64;  // as in a lease, so that neighbours are joined as they will be

// Parameters and gradients of any block, and an embedding of one token.
class MadeUpBlock final : public ParameterSource, public GradientTarget {
 public:
  MadeUpBlock(const strata::Unit& block, std::size_t hidden, strata::Dtype dtype) : dtype_(dtype) {
    std::size_t bytes = 0;
    for (const strata::Tensor& tensor : block.tensors) {
      places_.push_back({tensor.name.substr(tensor.name.find(".", layer_prefix.size())), bytes,
                         tensor.element_count() * strata::bytes_per_element(dtype)});
      bytes += (places_.back().size + tensor_alignment_bytes - 1) / tensor_alignment_bytes * tensor_alignment_bytes;
    }
    embedding_ = {embed_name, bytes, hidden * strata::bytes_per_element(dtype)};
    memory_.resize(bytes + embedding_.size);
    std::vector<float> values(memory_.size() / strata::bytes_per_element(dtype));
    strata::fill_normal(values, 1, "made up", 0, 0.02f);
    narrow(values, dtype, memory_.data());
  }

  strata::Dtype dtype() const override { return dtype_; }
  std::span<const std::byte> bytes(std::string_view tensor) const override {
    const Place& place = place_of(tensor);
    return {memory_.data() + place.begin, place.size};
  }
  std::span<std::byte> bytes(std::string_view tensor) override {
    const Place& place = place_of(tensor);
    return {memory_.data() + place.begin, place.size};
  }

 private:
  struct Place {
    std::string suffix;  // of the tensor's name, behind the layer's number
    std::size_t begin = 0, size = 0;
  };
  static constexpr std::string_view layer_prefix = "model.layers.";

  const Place& place_of(std::string_view tensor) const {
    const auto found = std::find_if(places_.begin(), places_.end(),
                                    [&](const Place& place) { return tensor.ends_with(place.suffix); });
    return found == places_.end() ? embedding_ : *found;
  }

  strata::Dtype dtype_;
  std::vector<Place> places_;
  Place embedding_;
  std::vector<std::byte> memory_;
};

struct BlockTimes {
  double forward_s = 0, backward_s = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Of one block; `layer_count` of them follow each other, as they do in a step.
BlockTimes time_blocks(Decoder& decoder, const MadeUpBlock& parameters, MadeUpBlock& gradients,
                       std::size_t layer_count) {
  BlockTimes times;
  const auto forward_start = std::chrono::steady_clock::now();
  for (std::size_t layer = 0; layer < layer_count; ++layer) decoder.forward_block(layer, parameters);
  times.forward_s = seconds_since(forward_start) / static_cast<double>(layer_count);
  const auto backward_start = std::chrono::steady_clock::now();
  for (std::size_t layer = layer_count; layer-- > 0;) decoder.backward_block(layer, parameters, gradients);
  times.backward_s = seconds_since(backward_start) / static_cast<double>(layer_count);
  return times;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// What is multiplied by each row of activations.
double product_elements(const strata::Unit& unit) {
  double sum = 0;
  for (const strata::Tensor& tensor : unit.tensors) {
    if (tensor.shape.size() == 2) sum += static_cast<double>(tensor.element_count());
  }
  return sum;
}

}  // namespace

std::vector<strata::Unit> timed_units(const Config& config, Decoder& decoder, const DecoderOptions& options,
                                      strata::Communicator& communicator) {
  constexpr std::size_t layers_most = 3, rounds_most = 5;
  constexpr double moment_s = 0.5;
  std::vector<strata::Unit> units = make_units(config);
  const std::size_t layers = std::min(layers_most, static_cast<std::size_t>(config.num_hidden_layers));
  const auto hidden = static_cast<std::size_t>(config.hidden_size);
  const MadeUpBlock parameters(units[1], hidden, options.parameters);
  MadeUpBlock gradients(units[1], hidden, options.gradients);
  const std::vector<std::int32_t> tokens(options.batch * options.seq, 0);
  decoder.embed(parameters, tokens, options.batch);
  communicator.barrier({});
  time_blocks(decoder, parameters, gradients, layers);  // makes the products' primitives
  communicator.barrier({});
  std::vector<double> forward_s, backward_s;
  const auto start = std::chrono::steady_clock::now();
  while (forward_s.empty() || (forward_s.size() < rounds_most && seconds_since(start) < moment_s)) {
    const BlockTimes times = time_blocks(decoder, parameters, gradients, layers);
    forward_s.push_back(times.forward_s);
    backward_s.push_back(times.backward_s);
  }
  for (auto unit = units.begin() + 1; unit + 1 != units.end(); ++unit) {
    unit->forward_s = median(forward_s);
    unit->backward_s = median(backward_s);
  }
  // The head's loss and gradients are one pass. Tied, it multiplies with the embedding.
  const double head_elements = product_elements(config.tie_word_embeddings ? units.front() : units.back());
  const double share = head_elements / product_elements(units[1]);
  units.back().backward_s = share * (median(forward_s) + median(backward_s));
  return units;
}

}  // namespace llm
