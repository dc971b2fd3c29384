#include "config.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

namespace llm {

namespace {

using nlohmann::json;

constexpr std::int64_t extent_max = std::int64_t{1} << 24;

[[noreturn]] void refuse(const std::string& text) { throw std::invalid_argument("config: " + text); }

std::int64_t read_extent(const json& object, const char* key) {
  if (!object.contains(key)) refuse(fmt::format("'{}' is missing", key));
  const json& value = object[key];
  if (!value.is_number_integer()) refuse(fmt::format("'{}' is {}, not a whole number", key, value.dump()));
  return value.get<std::int64_t>();
}

std::int64_t read_extent_or(const json& object, const char* key, std::int64_t fallback) {
  if (!object.contains(key) || object[key].is_null()) return fallback;
  return read_extent(object, key);
}

double read_number_or(const json& object, const char* key, double fallback) {
  if (!object.contains(key) || object[key].is_null()) return fallback;
  if (!object[key].is_number()) refuse(fmt::format("'{}' is {}, not a number", key, object[key].dump()));
  return object[key].get<double>();
}

bool read_flag_or(const json& object, const char* key, bool fallback) {
  if (!object.contains(key) || object[key].is_null()) return fallback;
  if (!object[key].is_boolean()) refuse(fmt::format("'{}' is {}, not true or false", key, object[key].dump()));
  return object[key].get<bool>();
}

double read_rope_theta(const json& object) {
  constexpr double theta_default = 10000.0;
  const char* nested = "rope_parameters";
  if (!object.contains(nested) || object[nested].is_null()) return read_number_or(object, "rope_theta", theta_default);
  const json& rope = object[nested];
  if (!rope.is_object()) refuse("'rope_parameters' is no object");
  if (rope.value("rope_type", json("default")) != "default") {
    refuse(fmt::format("'rope_parameters.rope_type' is {}: only \"default\" is computed", rope["rope_type"].dump()));
  }
  return read_number_or(rope, "rope_theta", read_number_or(object, "rope_theta", theta_default));
}

void refuse_what_is_not_computed(const json& object) {
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (read_flag_or(object, key, false)) refuse(fmt::format("'{}' is true: only false is computed", key));
  }
  if (object.contains("rope_scaling") && !object["rope_scaling"].is_null()) {
    refuse("'rope_scaling' is set: only null is computed");
  }
  if (object.contains("hidden_act") && object["hidden_act"] != "silu") {
    refuse(fmt::format("'hidden_act' is {}: only \"silu\" is computed", object["hidden_act"].dump()));
  }
}

}  // namespace

std::int64_t Config::parameter_count() const {
  const std::int64_t block = hidden_size * (query_size() + 2 * key_value_size()) + query_size() * hidden_size +
                             3 * hidden_size * intermediate_size + 2 * hidden_size;
  return vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2) + num_hidden_layers * block + hidden_size;
}

Config preset(std::string_view name) {
  Config config;  // its initial values are "demo"
  if (name == "demo") return config;
  if (name == "tiny") {
    config.hidden_size = 60;
    config.intermediate_size = 129;
    config.num_hidden_layers = 3;
    config.num_attention_heads = 5;
    config.num_key_value_heads = 1;
    config.head_dim = 12;
    return config;
  }
  if (name == "124m") {
    config.vocab_size = 32000;
    config.hidden_size = 768;
    config.intermediate_size = 2048;
    config.num_hidden_layers = 12;
    config.num_attention_heads = config.num_key_value_heads = 12;
    return config;
  }
  if (name == "smollm2") {
    config.vocab_size = 49152;
    config.hidden_size = 576;
    config.intermediate_size = 1536;
    config.num_hidden_layers = 30;
    config.num_attention_heads = 9;
    config.num_key_value_heads = 3;
    config.rms_norm_eps = 1e-5;
    config.rope_theta = 100000.0;
    config.tie_word_embeddings = true;
    config.max_position_embeddings = 8192;
    return config;
  }
  throw std::invalid_argument(fmt::format("preset '{}' does not exist: tiny, demo, 124m, smollm2", name));
}

Config parse_config(std::string_view json_text) {
  const json object = json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse("no JSON object");
  refuse_what_is_not_computed(object);
  Config config;
  config.vocab_size = read_extent(object, "vocab_size");
  config.hidden_size = read_extent(object, "hidden_size");
  config.intermediate_size = read_extent(object, "intermediate_size");
  config.num_hidden_layers = read_extent(object, "num_hidden_layers");
  config.num_attention_heads = read_extent(object, "num_attention_heads");
  config.num_key_value_heads = read_extent_or(object, "num_key_value_heads", config.num_attention_heads);
  if (config.num_attention_heads < 1) refuse("'num_attention_heads' must be at least 1");
  config.head_dim = read_extent_or(object, "head_dim", config.hidden_size / config.num_attention_heads);
  config.rms_norm_eps = read_number_or(object, "rms_norm_eps", 1e-6);
  config.rope_theta = read_rope_theta(object);
  config.tie_word_embeddings = read_flag_or(object, "tie_word_embeddings", false);
  config.max_position_embeddings = read_extent_or(object, "max_position_embeddings", config.max_position_embeddings);
  validate(config);
  return config;
}

Config read_config(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) refuse(fmt::format("'{}' cannot be read", file.string()));
  std::ostringstream text;
  text << stream.rdbuf();
  return parse_config(text.str());
}

void validate(const Config& config) {
  const std::pair<const char*, std::int64_t> extents[] = {
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_key_value_heads", config.num_key_value_heads},
      {"head_dim", config.head_dim},
  };
  for (const auto& [key, value] : extents) {
    if (value < 1 || value > extent_max) refuse(fmt::format("'{}' is {}, not within 1 to {}", key, value, extent_max));
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    refuse(fmt::format("'num_attention_heads' ({}) is no multiple of 'num_key_value_heads' ({})",
                       config.num_attention_heads, config.num_key_value_heads));
  }
  if (config.head_dim % 2 != 0) {
    refuse(fmt::format("'head_dim' is {}: rotary embedding turns pairs, so it must be even", config.head_dim));
  }
  if (!(config.rms_norm_eps >= 0) || !std::isfinite(config.rms_norm_eps)) refuse("'rms_norm_eps' must be 0 or more");
  if (!(config.rope_theta > 0) || !std::isfinite(config.rope_theta)) refuse("'rope_theta' must be above 0");
}

}  // namespace llm
