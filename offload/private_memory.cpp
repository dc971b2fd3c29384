#include "offload/private_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata::offload {
namespace {

constexpr std::size_t small_page_bytes = 4096;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

}  // namespace

PrivateMemory::PrivateMemory(std::size_t bytes) {
  if (bytes == 0) return;
  size_bytes_ = round_up(bytes, small_page_bytes);
  // Over-reserve address space, so that 2 MiB pages fit from the first byte on; only what is used is populated.
  const std::size_t slack = size_bytes_ >= huge_page_bytes ? huge_page_bytes : 0;
  mapping_bytes_ = size_bytes_ + slack;
  mapping_ =
      ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw Error(ErrorCode::out_of_budget,
                fmt::format("the system refuses {} of memory ({})", format_bytes(size_bytes_), std::strerror(errno)));
  }
  const auto base = reinterpret_cast<std::uintptr_t>(mapping_);
  data_ = reinterpret_cast<std::byte*>(slack ? round_up(base, huge_page_bytes) : base);
  if (slack) ::madvise(data_, size_bytes_, MADV_HUGEPAGE);  // advice: slower without it, nothing else
  if (::madvise(data_, size_bytes_, MADV_POPULATE_WRITE) != 0) {
    const int cause = errno;
    ::munmap(mapping_, mapping_bytes_);
    mapping_ = nullptr;
    throw Error(ErrorCode::out_of_budget, fmt::format("the system cannot supply {} of memory ({})",
                                                      format_bytes(size_bytes_), std::strerror(cause)));
  }
}

PrivateMemory::PrivateMemory(PrivateMemory&& other) noexcept { *this = std::move(other); }

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (mapping_) ::munmap(mapping_, mapping_bytes_);
}

}  // namespace strata::offload
