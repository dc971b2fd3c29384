// Hands out a tier's capacity from the first byte on, and checks what is loaded and stored against it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <strata/tier.h>

namespace strata::offload {

class ExtentAllotment {
 public:
  ExtentAllotment(std::string tier, std::uint64_t capacity_bytes, std::size_t alignment_bytes)
      : tier_(std::move(tier)), capacity_bytes_(capacity_bytes), alignment_bytes_(alignment_bytes) {}

  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t reserved_bytes() const { return reserved_bytes_; }
  std::size_t alignment_bytes() const { return alignment_bytes_; }

  // Rounded up to the alignment. Throws out_of_budget naming tier, need and capacity.
  Extent reserve(std::uint64_t size_bytes);

  // The offset within the tier. Throws invalid_argument when the bytes are not within the extent, or not aligned.
  std::uint64_t offset_of(const Extent& extent, std::uint64_t first_byte, const std::byte* address,
                          std::uint64_t size_bytes) const;

 private:
  const std::string tier_;
  const std::uint64_t capacity_bytes_;
  const std::size_t alignment_bytes_;
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace strata::offload
