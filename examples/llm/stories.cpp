#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "loaded_model.h"
#include "units.h"

namespace llm {

namespace {

class StoriesFile {
 public:
  explicit StoriesFile(const std::filesystem::path& file) : file_(file), stream_(file, std::ios::binary) {
    if (!stream_) throw std::invalid_argument(fmt::format("'{}' cannot be read", file.string()));
    left_bytes_ = std::filesystem::file_size(file);
  }

  template <class T>
  void read(T* target, std::size_t count) {
    const std::uint64_t bytes = count * sizeof(T);
    if (bytes > left_bytes_ || !stream_.read(reinterpret_cast<char*>(target), static_cast<std::streamsize>(bytes))) {
      throw std::invalid_argument(fmt::format("'{}' ends early: no model of llama2.c's first format", file_.string()));
    }
    left_bytes_ -= bytes;
  }

  std::vector<float> floats(std::size_t count) {
    if (count * sizeof(float) > left_bytes_) read<float>(nullptr, count);
    std::vector<float> values(count);
    read(values.data(), count);
    return values;
  }

 private:
  std::filesystem::path file_;
  std::ifstream stream_;
  std::uint64_t left_bytes_ = 0;
};

// The file's rotary embedding turns neighbours (2i, 2i + 1), ours halves: row 2i + j of a head becomes row j d/2 + i.
std::vector<float> half_split(const std::vector<float>& rows, std::size_t columns, std::size_t head_dim) {
  std::vector<float> moved(rows.size());
  const std::size_t half = head_dim / 2;
  for (std::size_t row = 0; row < rows.size() / columns; ++row) {
    const std::size_t in_head = row % head_dim, i = in_head / 2, j = in_head % 2;
    const std::size_t to = row - in_head + j * half + i;
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(row * columns), columns,
                moved.begin() + static_cast<std::ptrdiff_t>(to * columns));
  }
  return moved;
}

Config read_header(StoriesFile& file) {
  std::array<std::int32_t, 7> header;
  file.read(header.data(), header.size());
  Config config;
  config.hidden_size = header[0];
  config.intermediate_size = header[1];
  config.num_hidden_layers = header[2];
  config.num_attention_heads = header[3];
  config.num_key_value_heads = header[4];
  config.vocab_size = std::abs(static_cast<std::int64_t>(header[5]));
  config.tie_word_embeddings = header[5] > 0;
  config.max_position_embeddings = header[6];
  if (config.num_attention_heads > 0) config.head_dim = config.hidden_size / config.num_attention_heads;
  config.rms_norm_eps = 1e-5;  // not in the file: what llama2.c computes with, as is theta 10000
  validate(config);
  return config;
}

}  // namespace

LoadedModel read_stories(const std::filesystem::path& path) {
  StoriesFile file(path);
  const Config config = read_header(file);
  std::map<std::string, std::vector<float>, std::less<>> tensors;
  const auto hidden = static_cast<std::size_t>(config.hidden_size),
             inner = static_cast<std::size_t>(config.intermediate_size);
  const auto vocab = static_cast<std::size_t>(config.vocab_size), head_dim = static_cast<std::size_t>(config.head_dim);
  const auto query = static_cast<std::size_t>(config.query_size()),
             kv = static_cast<std::size_t>(config.key_value_size());
  std::vector<BlockNames> names;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) names.emplace_back(layer);
  const auto for_layers = [&](std::string BlockNames::*name, std::size_t count) {
    for (const BlockNames& of : names) tensors[of.*name] = file.floats(count);
  };
  tensors[embed_name] = file.floats(vocab * hidden);
  for_layers(&BlockNames::input_norm, hidden);
  for_layers(&BlockNames::q, query * hidden);
  for_layers(&BlockNames::k, kv * hidden);
  for_layers(&BlockNames::v, kv * hidden);
  for_layers(&BlockNames::o, hidden * query);
  for_layers(&BlockNames::post_norm, hidden);
  for_layers(&BlockNames::gate, inner * hidden);
  for_layers(&BlockNames::down, hidden * inner);
  for_layers(&BlockNames::up, inner * hidden);
  tensors[norm_name] = file.floats(hidden);
  file.floats(static_cast<std::size_t>(config.max_position_embeddings) * head_dim);  // tables of cos and sin
  if (!config.tie_word_embeddings) tensors[head_name] = file.floats(vocab * hidden);
  for (const BlockNames& of : names) {
    for (const std::string* name : {&of.q, &of.k}) tensors[*name] = half_split(tensors[*name], hidden, head_dim);
  }
  return {config, std::move(tensors)};
}

}  // namespace llm
