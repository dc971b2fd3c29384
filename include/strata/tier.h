// Where bytes live while nobody computes with them: the device, host memory, a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <strata/event.h>

namespace strata {

enum class TierKind : std::uint8_t { device, host, nvme };

// Reserved bytes of one tier. Reserved at the start, for as long as the tier lives.
struct Extent {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

struct TierCounters {
  std::uint64_t loaded_bytes = 0;
  std::uint64_t stored_bytes = 0;
  double busy_s = 0;  // while at least one load or store was under way
};

// Loads and stores of one tier. They run in any order: who needs an order waits for the first event. A buffer stays
// untouched until its event is there. A failure is in the event (Error{io} with path, offset, length and errno) and
// leaves the tier usable.
// Threading: reserve from one thread before all else; load, store and the getters from any.
class Tier {
 public:
  virtual ~Tier() = default;

  virtual TierKind kind() const = 0;
  virtual std::string name() const = 0;  // for people: "host", "nvme (io_uring, direct)"
  virtual std::uint64_t capacity_bytes() const = 0;
  virtual std::uint64_t reserved_bytes() const = 0;

  // Extents, and the addresses and sizes of what is loaded and stored, are multiples of this.
  virtual std::size_t alignment_bytes() const = 0;

  // Throws out_of_budget beyond the capacity.
  virtual Extent reserve(std::uint64_t size_bytes) = 0;

  // From `first_byte` of the extent on; the span must end within it.
  virtual Event load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) = 0;
  virtual Event store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) = 0;

  // The bytes in place, where the tier is memory of the compute device or of the host; else empty.
  virtual std::span<std::byte> memory(const Extent& extent) const = 0;

  virtual TierCounters counters() const = 0;
};

}  // namespace strata
