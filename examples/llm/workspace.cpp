#include "workspace.h"

#include <sys/mman.h>

#include <new>

namespace llm {

namespace {
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }
}  // namespace

Workspace::Workspace(std::size_t bytes) : mapped_bytes_(round_up(bytes, huge_page_bytes) + huge_page_bytes) {
  void* at = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(at);
  ::madvise(at, mapped_bytes_, MADV_HUGEPAGE);  // refused: the same results on small pages
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(base_) % huge_page_bytes;
  taken_ = misaligned == 0 ? 0 : huge_page_bytes - misaligned;
}

Workspace::~Workspace() {
  if (base_ != nullptr) ::munmap(base_, mapped_bytes_);
}

void* Workspace::take_bytes(std::size_t bytes) {
  const std::size_t at = taken_;
  taken_ += round_up(bytes, alignment_bytes);
  if (base_ == nullptr) return nullptr;
  if (taken_ > mapped_bytes_) throw std::bad_alloc();
  return base_ + at;
}

}  // namespace llm
