#include "support/golden.h"

#include <cstring>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace strata::test {
namespace {

constexpr std::uint64_t header_bytes_max = 1 << 20;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw std::runtime_error(fmt::format("golden file '{}': {}", path, what));
}

std::size_t element_bytes(const std::string& path, const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64") return 8;
  if (dtype == "F32") return 4;
  if (dtype == "BF16" || dtype == "F16") return 2;
  fail(path, fmt::format("dtype '{}' is not one of F32, F64, I64, BF16, F16", dtype));
}

GoldenTensor parse_tensor(const std::string& path, const std::string& name, const nlohmann::json& entry,
                          std::span<const std::byte> all_bytes) {
  GoldenTensor tensor;
  tensor.dtype = entry.at("dtype").get<std::string>();
  tensor.shape = entry.at("shape").get<std::vector<std::int64_t>>();
  tensor.count = 1;
  for (const std::int64_t extent : tensor.shape) tensor.count *= static_cast<std::size_t>(extent);
  const std::size_t begin = entry.at("data_offsets").at(0).get<std::size_t>();
  const std::size_t end = entry.at("data_offsets").at(1).get<std::size_t>();
  const std::size_t width = element_bytes(path, tensor.dtype);
  if (begin > end || end > all_bytes.size()) fail(path, fmt::format("'{}' lies beyond the end of the file", name));
  if (end - begin != tensor.count * width) fail(path, fmt::format("'{}': shape and offsets disagree", name));
  if (begin % width != 0) fail(path, fmt::format("'{}' is not aligned to its dtype", name));
  tensor.bytes = all_bytes.subspan(begin, end - begin);
  return tensor;
}

}  // namespace

Golden::Golden(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail(path, "cannot be opened");
  const auto file_bytes = static_cast<std::uint64_t>(file.tellg());
  file.seekg(0);
  std::uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
  if (!file || header_bytes > header_bytes_max || header_bytes + 8 > file_bytes)
    fail(path, "has no safetensors header");
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const std::size_t data_bytes = file_bytes - 8 - header_bytes;
  words_.resize((data_bytes + 7) / 8);
  file.read(reinterpret_cast<char*>(words_.data()), static_cast<std::streamsize>(data_bytes));
  if (!file) fail(path, "cannot be read to its end");

  const std::span<const std::byte> bytes = std::as_bytes(std::span(words_)).first(data_bytes);
  try {
    const nlohmann::json entries = nlohmann::json::parse(header);
    for (const auto& [name, entry] : entries.items()) {
      if (name != "__metadata__") tensors_.emplace(name, parse_tensor(path, name, entry, bytes));
    }
  } catch (const nlohmann::json::exception& error) {
    fail(path, fmt::format("bad header: {}", error.what()));
  }
}

std::vector<std::string> Golden::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

bool Golden::contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }

const GoldenTensor& Golden::tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(path_, fmt::format("has no tensor '{}'", name));
  return found->second;
}

double Golden::scalar(std::string_view name) const {
  const std::span<const double> values = f64(name);
  if (values.size() != 1) fail(path_, fmt::format("'{}' has {} elements, not 1", name, values.size()));
  return values[0];
}

std::span<const std::byte> Golden::checked_bytes(std::string_view name, std::string_view dtype) const {
  const GoldenTensor& found = tensor(name);
  if (found.dtype != dtype) fail(path_, fmt::format("'{}' is {}, not {}", name, found.dtype, dtype));
  return found.bytes;
}

}  // namespace strata::test
