// What is stored carries a seal that its loader checks: a flipped, stale or misplaced block is found before use.
//
// A seal is a checksum of the bytes, seeded with unit, chunk, kind and version; seals and versions live in memory. With
// two copies (shadow slots) a store writes beside the last version and the version decides which copy is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <strata/event.h>
#include <strata/tier.h>

namespace strata::offload {

enum class Content : std::uint8_t { record, published, frozen, accumulator, activation };
enum class Copies : std::uint8_t { one = 1, two = 2 };

// What an extent holds, for its seal and for messages.
struct Identity {
  Content content = Content::record;
  std::uint32_t unit = 0;
  std::uint32_t chunk = 0;
};

// Threading: add from one thread before all else. Different items may be used by different threads at once; one item by
// one at a time.
class SealedStore {
 public:
  // The tier outlives the store.
  explicit SealedStore(Tier& tier) : tier_(tier) {}

  // Reserves room for one item; its index. `size_bytes` is rounded up to the tier's alignment, and so must spans be.
  std::size_t add(const Identity& identity, std::uint64_t size_bytes, Copies copies);

  // A new version of the item. Computes the seal on the calling thread, then stores. Until the event is there the span
  // stays as it is. What load() reads is this version from now on.
  Event store(std::size_t item, std::span<const std::byte> source);

  // The current version. REQUIRES that its store's event is there.
  Event load(std::size_t item, std::span<std::byte> target);

  // Call when the load's event is there and before the bytes are used. Throws Error{corruption} naming tier, content,
  // unit, chunk and version. Computed on the calling thread.
  void verify(std::size_t item, std::span<const std::byte> loaded) const;

  // Waits for the load and verifies. An error of the tier gets the identity into its text, too.
  void finish_load(std::size_t item, const Event& load, std::span<const std::byte> loaded) const;

  std::uint64_t version(std::size_t item) const { return items_[item].version; }  // 0: never stored
  std::uint64_t padded_bytes(std::size_t item) const { return items_[item].size_bytes; }
  Tier& tier() const { return tier_; }

  // Memory that the table takes.
  static constexpr std::size_t table_bytes_per_item = 64;

 private:
  struct Item {
    Identity identity;
    Extent extent;
    std::uint64_t size_bytes = 0;  // of one copy
    std::uint64_t version = 0;
    std::uint64_t checksum = 0;
    Copies copies = Copies::one;
  };

  std::string described(const Item& item) const;         // for messages
  static std::uint64_t first_byte_of(const Item& item);  // of the current copy, within the extent

  Tier& tier_;
  std::vector<Item> items_;
};

}  // namespace strata::offload
