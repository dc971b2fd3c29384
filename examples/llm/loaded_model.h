// A model's parameters in memory, read from files of others.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config.h"
#include "parameters.h"

namespace llm {

class LoadedModel final : public ParameterSource {
 public:
  // Throws std::invalid_argument unless `tensors` holds exactly the elements that the config's units name.
  LoadedModel(Config config, std::map<std::string, std::vector<float>, std::less<>> tensors);

  const Config& config() const { return config_; }
  strata::Dtype dtype() const override { return strata::Dtype::f32; }
  std::span<const std::byte> bytes(std::string_view tensor) const override;  // throws std::invalid_argument

 private:
  Config config_;
  std::map<std::string, std::vector<float>, std::less<>> tensors_;
};

// A Hugging Face directory: config.json and model.safetensors with F32, BF16 or F16 tensors.
LoadedModel read_hugging_face(const std::filesystem::path& directory);

// llama2.c's first format, little-endian: seven i32 (dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size,
// seq_len; a negative vocab_size means an untied head), then f32 arrays by kind, each for all layers.
LoadedModel read_stories(const std::filesystem::path& file);

}  // namespace llm
