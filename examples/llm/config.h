// The sizes of a Llama-family decoder, by the names of Hugging Face's config.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace llm {

struct Config {
  std::int64_t vocab_size = 256;
  std::int64_t hidden_size = 320;
  std::int64_t intermediate_size = 864;
  std::int64_t num_hidden_layers = 8;
  std::int64_t num_attention_heads = 5;
  std::int64_t num_key_value_heads = 5;
  std::int64_t head_dim = 64;
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  bool tie_word_embeddings = false;
  std::int64_t max_position_embeddings = 2048;

  std::int64_t query_size() const { return num_attention_heads * head_dim; }
  std::int64_t key_value_size() const { return num_key_value_heads * head_dim; }
  std::int64_t qkv_size() const { return query_size() + 2 * key_value_size(); }
  std::int64_t parameter_count() const;  // a tied head counted once
};

// "tiny", "demo", "124m" or "smollm2"; throws std::invalid_argument that lists them for any other.
Config preset(std::string_view name);

// Reads the text of a config.json. Both places of the rotary base are understood: `rope_theta` at the top, and
// `rope_parameters.rope_theta`. Where a key is absent: num_key_value_heads = num_attention_heads, head_dim =
// hidden_size / num_attention_heads, rms_norm_eps 1e-6, rope_theta 10000, tie_word_embeddings false. Throws
// std::invalid_argument that names the key for what is missing, of another type, out of range, or asks for what this
// decoder does not compute (biases, scaled rotary embeddings, another activation).
Config parse_config(std::string_view json_text);
Config read_config(const std::filesystem::path& file);

// Throws std::invalid_argument that names the key when sizes contradict each other.
void validate(const Config& config);

}  // namespace llm
