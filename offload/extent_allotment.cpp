#include "offload/extent_allotment.h"

#include <fmt/format.h>

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata::offload {

Extent ExtentAllotment::reserve(std::uint64_t size_bytes) {
  const std::uint64_t free_bytes = capacity_bytes_ - reserved_bytes_;
  // Compared before rounding up, which could wrap.
  if (size_bytes > free_bytes || (size_bytes + alignment_bytes_ - 1) / alignment_bytes_ * alignment_bytes_ > free_bytes)
    throw Error(ErrorCode::out_of_budget,
                fmt::format("{}: {} do not fit: {} of {} are taken", tier_, format_bytes(size_bytes),
                            format_bytes(reserved_bytes_), format_bytes(capacity_bytes_)));
  const Extent extent = {reserved_bytes_, (size_bytes + alignment_bytes_ - 1) / alignment_bytes_ * alignment_bytes_};
  reserved_bytes_ += extent.size_bytes;
  return extent;
}

std::uint64_t ExtentAllotment::offset_of(const Extent& extent, std::uint64_t first_byte, const std::byte* address,
                                         std::uint64_t size_bytes) const {
  if (extent.offset_bytes > reserved_bytes_ || extent.size_bytes > reserved_bytes_ - extent.offset_bytes ||
      first_byte > extent.size_bytes || size_bytes > extent.size_bytes - first_byte)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: bytes {} to {} of an extent of {} at {}, where {} are reserved", tier_, first_byte,
                            first_byte + size_bytes, extent.size_bytes, extent.offset_bytes, reserved_bytes_));
  const std::uint64_t offset = extent.offset_bytes + first_byte;
  if ((offset | size_bytes | reinterpret_cast<std::uintptr_t>(address)) % alignment_bytes_ != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} bytes at offset {}, address {}: all are to be multiples of {}", tier_, size_bytes,
                            offset, static_cast<const void*>(address), alignment_bytes_));
  return offset;
}

}  // namespace strata::offload
