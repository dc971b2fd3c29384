// safetensors: 8 bytes of header length (little-endian), a JSON object {"name": {"dtype": "F32", "shape": [3, 4],
// "data_offsets": [begin, end]}, "__metadata__": {...}}, then the tensors' bytes, row-major.
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "kernels/convert.h"
#include "loaded_model.h"

namespace llm {

namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& text) {
  throw std::invalid_argument(fmt::format("'{}': {}", file.string(), text));
}

std::optional<strata::Dtype> dtype_named(const std::string& name) {
  if (name == "F32") return strata::Dtype::f32;
  if (name == "BF16") return strata::Dtype::bf16;
  if (name == "F16") return strata::Dtype::f16;
  return std::nullopt;
}

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& file) : file_(file), stream_(file, std::ios::binary) {
    constexpr std::uint64_t header_most = std::uint64_t{100} << 20;
    if (!stream_) refuse(file_, "cannot be read");
    const std::uint64_t size = std::filesystem::file_size(file_);
    std::uint64_t header_size = 0;
    if (!stream_.read(reinterpret_cast<char*>(&header_size), sizeof(header_size)) || header_size > header_most ||
        header_size + sizeof(header_size) > size) {
      refuse(file_, "no safetensors file: the length of its header is beyond its end");
    }
    std::string text(header_size, '\0');
    stream_.read(text.data(), static_cast<std::streamsize>(header_size));
    header_ = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!header_.is_object()) refuse(file_, "no safetensors file: its header is no JSON object");
    data_begin_ = sizeof(header_size) + header_size;
    data_size_ = size - data_begin_;
  }

  const json& header() const { return header_; }

  std::vector<float> read(const std::string& name) {
    const json& entry = header_.at(name);
    const json offsets = entry.value("data_offsets", json());
    const bool sound = offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
                       offsets[1].is_number_unsigned() && offsets[0] <= offsets[1] && offsets[1] <= data_size_;
    if (!sound) refuse(file_, fmt::format("tensor '{}' does not lie within the file", name));
    const auto dtype = dtype_named(entry.value("dtype", ""));
    if (!dtype)
      refuse(file_, fmt::format("tensor '{}' is {}: F32, BF16 and F16 are read", name, entry.value("dtype", "?")));
    const auto begin = offsets[0].get<std::uint64_t>(), size = offsets[1].get<std::uint64_t>() - begin;
    const std::size_t width = strata::bytes_per_element(*dtype);
    if (size % width != 0) refuse(file_, fmt::format("tensor '{}' ends within an element", name));
    std::vector<char> bytes(size);
    stream_.seekg(static_cast<std::streamoff>(data_begin_ + begin));
    if (!stream_.read(bytes.data(), static_cast<std::streamsize>(size))) refuse(file_, "ended early");
    std::vector<float> values(size / width);
    widen(bytes.data(), *dtype, values);
    return values;
  }

 private:
  std::filesystem::path file_;
  std::ifstream stream_;
  json header_;
  std::uint64_t data_begin_ = 0, data_size_ = 0;
};

}  // namespace

LoadedModel read_hugging_face(const std::filesystem::path& directory) {
  const Config config = read_config(directory / "config.json");
  SafetensorsFile file(directory / "model.safetensors");
  std::map<std::string, std::vector<float>, std::less<>> tensors;
  for (const auto& [name, entry] : file.header().items()) {
    if (name != "__metadata__" && entry.is_object()) tensors[name] = file.read(name);
  }
  return {config, std::move(tensors)};
}

}  // namespace llm
