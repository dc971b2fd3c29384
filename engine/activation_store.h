// What stash() keeps until fetch(): keys over a room of equal pieces, in memory or behind staging on a disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strata/tier.h>
#include "engine/activation_needs.h"
#include "engine/activation_staging.h"
#include "offload/private_memory.h"

namespace strata::engine {

// stash, fetch and drop_all as engine.h says. Takes its memory when it is made, and nothing later.
// Threading: one thread.
class ActivationStore {
 public:
  ActivationStore() = default;  // without room

  // `tier` outlives the store; for nvme only, else null.
  ActivationStore(const ActivationNeeds& needs, TierKind home, Tier* tier);

  void stash(std::uint64_t key, std::span<const std::byte> bytes);
  void fetch(std::uint64_t key, std::span<std::byte> target);
  void drop_all();

  // Throws invalid_argument naming the keys where there are any.
  void check_empty(std::string_view act) const;

  TierKind home() const { return home_; }
  double waited_s() const { return staging_ ? staging_->waited_s() : 0; }  // the caller, since the last reset
  void reset_waited();

  static constexpr std::size_t table_bytes_per_piece = 64;  // of entries, buckets and chains

 private:
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};

  // Of a key; lies at the index of the key's first piece.
  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t age = 0;
    std::uint32_t next_in_bucket = nothing;
    std::uint32_t older = nothing, newer = nothing;  // in the order of stashing
  };

  template <class Piece>  // piece(index, first byte, byte count)
  void visit_pieces(std::uint32_t entry, const Piece& piece) const;
  std::size_t bucket_of(std::uint64_t key) const;
  std::uint32_t find(std::uint64_t key) const;
  void check_room(std::uint64_t key, std::uint64_t size_bytes) const;
  std::uint32_t take_pieces(std::uint64_t count);
  void link(std::uint32_t entry);
  void release(std::uint32_t entry);
  void read_ahead(std::uint32_t entry, std::uint32_t piece);
  std::string live_keys() const;

  TierKind home_ = TierKind::device;
  std::uint64_t room_bytes_ = 0;
  std::uint64_t free_count_ = 0;  // pieces
  std::uint64_t entry_count_ = 0;
  std::uint64_t age_ = 0;
  offload::PrivateMemory memory_;             // the room itself, unless it is on a disk
  std::optional<ActivationStaging> staging_;  // where it is on a disk
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> next_piece_;  // of the same key, or of the free ones
  std::vector<std::uint32_t> buckets_;     // first entries, by hash of the key
  std::uint32_t first_free_ = nothing;
  std::uint32_t newest_ = nothing;
};

}  // namespace strata::engine
