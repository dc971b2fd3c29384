// This rank's own memory: anonymous, zeroed and touched, so that a shortage shows at the start and not in mid-step.
#pragma once

#include <cstddef>
#include <span>

namespace strata::offload {

class PrivateMemory {
 public:
  PrivateMemory() = default;

  // Takes `bytes` rounded up to 4 KiB pages; 2 MiB pages where the size allows. Throws out_of_budget naming the size.
  explicit PrivateMemory(std::size_t bytes);
  PrivateMemory(PrivateMemory&& other) noexcept;
  PrivateMemory& operator=(PrivateMemory&& other) noexcept;
  ~PrivateMemory();

  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data_), size_bytes_ / sizeof(T)};
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
};

}  // namespace strata::offload
