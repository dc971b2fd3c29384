#include "support/allocation_count.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> counted{0};

void* count_and_take(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) counted.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (::posix_memalign(&memory, std::max(alignment, alignof(std::max_align_t)), std::max<std::size_t>(bytes, 1)) != 0) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return count_and_take(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return count_and_take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace strata::test {

void start_counting_allocations() {
  counted = 0;
  counting = true;
}

std::uint64_t stop_counting_allocations() {
  counting = false;
  return counted.load();
}

}  // namespace strata::test
