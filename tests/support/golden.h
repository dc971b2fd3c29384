// Reference values kept as safetensors files: 8 bytes of header length (little-endian), a JSON header
// {"name": {"dtype": "F64", "shape": [3, 4], "data_offsets": [begin, end]}, ...}, then the tensors' bytes, row-major.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strata/dtype.h>

namespace strata::test {

struct GoldenTensor {
  std::string dtype;  // as in the file: "F32", "F64", "I64", "BF16", "F16"
  std::vector<std::int64_t> shape;
  std::size_t count = 0;  // elements
  std::span<const std::byte> bytes;
};

// One file, read whole. Everything throws std::runtime_error naming file and tensor when it is not what the caller asks
// for. Spans live as long as the object, also when that is moved.
class Golden {
 public:
  explicit Golden(const std::string& path);
  Golden(Golden&&) = default;
  Golden& operator=(Golden&&) = default;

  const std::string& path() const { return path_; }
  std::vector<std::string> names() const;  // sorted
  bool contains(std::string_view name) const;
  const GoldenTensor& tensor(std::string_view name) const;
  const std::vector<std::int64_t>& shape(std::string_view name) const { return tensor(name).shape; }

  std::span<const float> f32(std::string_view name) const { return typed<float>(name, "F32"); }
  std::span<const double> f64(std::string_view name) const { return typed<double>(name, "F64"); }
  std::span<const std::int64_t> i64(std::string_view name) const { return typed<std::int64_t>(name, "I64"); }
  std::span<const bf16> bf16s(std::string_view name) const { return typed<bf16>(name, "BF16"); }
  std::span<const f16> f16s(std::string_view name) const { return typed<f16>(name, "F16"); }
  double scalar(std::string_view name) const;  // of an F64 tensor with one element

 private:
  std::span<const std::byte> checked_bytes(std::string_view name, std::string_view dtype) const;
  template <typename T>
  std::span<const T> typed(std::string_view name, std::string_view dtype) const {
    const std::span<const std::byte> bytes = checked_bytes(name, dtype);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  std::string path_;
  std::vector<std::uint64_t> words_;  // the tensors' bytes, aligned for every dtype
  std::map<std::string, GoldenTensor, std::less<>> tensors_;
};

}  // namespace strata::test
