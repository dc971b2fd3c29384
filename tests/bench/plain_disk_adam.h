// AdamW over state on a disk as it is commonly done, from the same parts as ours: master and each moment in a file of
// its own, gradients through the disk in f32, buffers on 4 KiB pages, one chunk loaded, updated and stored before the
// next.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <strata/optimizer.h>

#include "offload/nvme_tier.h"

namespace strata::bench {

class PlainDiskAdam {
 public:
  PlainDiskAdam(const std::string& dir, std::size_t element_count);
  ~PlainDiskAdam();
  PlainDiskAdam(const PlainDiskAdam&) = delete;
  PlainDiskAdam& operator=(const PlainDiskAdam&) = delete;

  // Gradients to the disk, as the backward pass would; then the step.
  void step();

 private:
  static constexpr std::size_t chunk_count = std::size_t{1} << 20;
  static constexpr std::size_t chunk_bytes = chunk_count * sizeof(float);
  enum Array { master, first_moment, second_moment, gradient, array_count };

  std::span<std::byte> buffer(Array array) const { return {memory_ + array * chunk_bytes, chunk_bytes}; }
  float* values(Array array) const { return reinterpret_cast<float*>(memory_ + array * chunk_bytes); }

  const std::size_t chunks_;
  const std::shared_ptr<const Optimizer> optimizer_ = adamw({});
  std::byte* memory_ = nullptr;
  std::vector<std::unique_ptr<offload::NvmeTier>> files_;
  std::vector<Extent> extents_;
  std::vector<bf16> published_;
};

}  // namespace strata::bench
