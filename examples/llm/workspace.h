// The model's own memory: one block, taken once and handed out in pieces; nothing on the step path allocates.
#pragma once

#include <cstddef>
#include <cstdint>

namespace llm {

class Workspace {
 public:
  static constexpr std::size_t alignment_bytes = 64;

  Workspace() = default;
  explicit Workspace(std::size_t bytes);  // zeroed, on 2 MiB pages where the system gives them; throws std::bad_alloc
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // The next `count` elements, 64-byte aligned. A workspace of 0 bytes measures: it returns null and only counts.
  template <class T>
  T* take(std::size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }

  std::size_t taken_bytes() const { return taken_; }

 private:
  void* take_bytes(std::size_t bytes);

  std::byte* base_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace llm
