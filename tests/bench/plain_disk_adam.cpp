#include "bench/plain_disk_adam.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace strata::bench {

PlainDiskAdam::PlainDiskAdam(const std::string& dir, std::size_t element_count)
    : chunks_(element_count / chunk_count), published_(chunk_count) {
  void* const memory =
      mmap(nullptr, array_count * chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, array_count * chunk_bytes, MADV_NOHUGEPAGE);
  memory_ = static_cast<std::byte*>(memory);
  for (int array = master; array < array_count; ++array) {
    std::fill_n(values(static_cast<Array>(array)), chunk_count, array == gradient ? 1e-4f : 1e-2f);
    offload::DiskOptions options;
    options.dirs = {dir};
    options.capacity_bytes = chunks_ * chunk_bytes;
    files_.push_back(std::make_unique<offload::NvmeTier>(options));
    extents_.push_back(files_.back()->reserve(options.capacity_bytes));
    for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
      files_.back()->store(extents_.back(), chunk * chunk_bytes, buffer(static_cast<Array>(array))).wait();
    }
  }
}

PlainDiskAdam::~PlainDiskAdam() {
  files_.clear();
  munmap(memory_, array_count * chunk_bytes);
}

void PlainDiskAdam::step() {
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
    files_[gradient]->store(extents_[gradient], chunk * chunk_bytes, buffer(gradient)).wait();
  }
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
    Event events[array_count];
    for (int array = master; array < array_count; ++array) {
      events[array] = files_[array]->load(extents_[array], chunk * chunk_bytes, buffer(static_cast<Array>(array)));
    }
    for (const Event& event : events) event.wait();
    const UpdatePiece piece{.count = chunk_count,
                            .master = values(master),
                            .moments = {values(first_moment), values(second_moment)},
                            .gradient = values(gradient),
                            .gradient_dtype = Dtype::f32,
                            .published = published_.data(),
                            .published_dtype = Dtype::bf16};
    optimizer_->update(piece, {.lr = 1e-5, .applied_count = 100});
    for (int array = master; array < gradient; ++array) {
      events[array] = files_[array]->store(extents_[array], chunk * chunk_bytes, buffer(static_cast<Array>(array)));
    }
    for (const Event& event : events) event.wait();
  }
}

}  // namespace strata::bench
