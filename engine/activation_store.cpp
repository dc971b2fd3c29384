#include "engine/activation_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <strata/bytes.h>
#include <strata/engine.h>
#include <strata/error.h>

namespace strata::engine {
namespace {

constexpr std::size_t shown_key_count = 8;

std::string exact(std::uint64_t bytes) { return fmt::format("{} ({} bytes)", format_bytes(bytes), bytes); }

}  // namespace

ActivationStore::ActivationStore(const ActivationNeeds& needs, TierKind home, Tier* tier)
    : home_(home), room_bytes_(needs.room_bytes), free_count_(needs.room_bytes / stash_piece_bytes) {
  static_assert(table_bytes_per_piece >= sizeof(Entry) + sizeof(std::uint32_t) * 3, "buckets are up to two a piece");
  if (free_count_ == 0) return;
  if (home == TierKind::nvme) {
    staging_.emplace(*tier, free_count_, needs.staging_bytes);
  } else {
    memory_ = offload::PrivateMemory(room_bytes_);
  }
  entries_.resize(free_count_);
  next_piece_.resize(free_count_);
  for (std::size_t piece = 0; piece < free_count_; ++piece) next_piece_[piece] = static_cast<std::uint32_t>(piece + 1);
  next_piece_.back() = nothing;
  first_free_ = 0;
  buckets_.assign(std::bit_ceil(free_count_), nothing);
}

template <class Piece>
void ActivationStore::visit_pieces(std::uint32_t entry, const Piece& piece) const {
  const std::uint64_t size_bytes = entries_[entry].size_bytes;
  std::uint64_t first = 0;
  for (std::uint32_t at = entry; at != nothing; at = next_piece_[at]) {
    const std::uint64_t count = std::min(stash_piece_bytes, size_bytes - first);
    piece(at, first, count);
    first += count;
  }
}

std::size_t ActivationStore::bucket_of(std::uint64_t key) const {
  const std::uint64_t hash = (key ^ (key >> 32)) * 0x9E3779B97F4A7C15ull;
  return (hash >> 32) & (buckets_.size() - 1);
}

std::uint32_t ActivationStore::find(std::uint64_t key) const {
  if (entry_count_ == 0) return nothing;
  std::uint32_t entry = buckets_[bucket_of(key)];
  while (entry != nothing && entries_[entry].key != key) entry = entries_[entry].next_in_bucket;
  return entry;
}

void ActivationStore::check_room(std::uint64_t key, std::uint64_t size_bytes) const {
  const std::uint64_t need_bytes = stashed_bytes(size_bytes), free_bytes = free_count_ * stash_piece_bytes;
  if (need_bytes <= free_bytes) return;
  throw Error(ErrorCode::out_of_budget,
              fmt::format("stash(key {}, {}) takes {} of the room for activations, but of its {} only {} are free "
                          "(keys stashed: {}): raise --strata-activation-memory to at least {}",
                          key, exact(size_bytes), format_bytes(need_bytes), format_bytes(room_bytes_),
                          format_bytes(free_bytes), live_keys(), format_bytes(room_bytes_ - free_bytes + need_bytes)));
}

std::uint32_t ActivationStore::take_pieces(std::uint64_t count) {
  const std::uint32_t first = first_free_;
  std::uint32_t last = first;
  for (std::uint64_t i = 1; i < count; ++i) last = next_piece_[last];
  first_free_ = next_piece_[last];
  next_piece_[last] = nothing;
  free_count_ -= count;
  return first;
}

void ActivationStore::link(std::uint32_t entry) {
  Entry& linked = entries_[entry];
  std::uint32_t& bucket = buckets_[bucket_of(linked.key)];
  linked.next_in_bucket = bucket;
  bucket = entry;
  linked.older = newest_;
  if (newest_ != nothing) entries_[newest_].newer = entry;
  newest_ = entry;
  ++entry_count_;
}

// The freed pieces are the next to be taken, in the same order.
void ActivationStore::release(std::uint32_t entry) {
  const Entry& released = entries_[entry];
  std::uint32_t* link = &buckets_[bucket_of(released.key)];
  while (*link != entry) link = &entries_[*link].next_in_bucket;
  *link = released.next_in_bucket;
  (released.newer == nothing ? newest_ : entries_[released.newer].older) = released.older;
  if (released.older != nothing) entries_[released.older].newer = released.newer;
  --entry_count_;
  std::uint32_t last = entry;
  visit_pieces(entry, [&](std::uint32_t piece, std::uint64_t, std::uint64_t) {
    if (staging_) staging_->forget(piece);
    last = piece;
    ++free_count_;
  });
  next_piece_[last] = first_free_;
  first_free_ = entry;
}

void ActivationStore::stash(std::uint64_t key, std::span<const std::byte> bytes) {
  if (const std::uint32_t held = find(key); held != nothing) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("stash(key {}, {}): {} are stashed under this key already: fetch them first", key,
                            exact(bytes.size()), exact(entries_[held].size_bytes)));
  }
  check_room(key, bytes.size());
  const std::uint32_t entry = take_pieces(stashed_bytes(bytes.size()) / stash_piece_bytes);
  entries_[entry] = {key, bytes.size(), ++age_, nothing, nothing, nothing};
  link(entry);
  try {
    visit_pieces(entry, [&](std::uint32_t piece, std::uint64_t first, std::uint64_t count) {
      if (staging_) {
        staging_->put(piece, age_, bytes.subspan(first, count));
      } else if (count > 0) {
        std::memcpy(memory_.bytes().data() + piece * stash_piece_bytes, bytes.data() + first, count);
      }
    });
  } catch (const Error&) {
    release(entry);
    throw;
  }
}

void ActivationStore::fetch(std::uint64_t key, std::span<std::byte> target) {
  const std::uint32_t entry = find(key);
  if (entry == nothing) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("fetch(key {}, {}): nothing is stashed under this key (keys stashed: {})", key,
                            exact(target.size()), live_keys()));
  }
  if (entries_[entry].size_bytes != target.size()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("fetch(key {}, {}): {} are stashed under this key", key,
                                                         exact(target.size()), exact(entries_[entry].size_bytes)));
  }
  visit_pieces(entry, [&](std::uint32_t piece, std::uint64_t first, std::uint64_t count) {
    if (staging_) {
      read_ahead(entry, piece);
      staging_->copy_out(piece, entries_[entry].age, target.subspan(first, count));
    } else if (count > 0) {
      std::memcpy(target.data() + first, memory_.bytes().data() + piece * stash_piece_bytes, count);
    }
  });
  const std::uint32_t older = entries_[entry].older;
  release(entry);
  if (staging_ && older != nothing) read_ahead(older, older);
}

// What is wanted next, into idle buffers: the key from `piece` on, then the keys stashed before it.
void ActivationStore::read_ahead(std::uint32_t entry, std::uint32_t piece) {
  while (entry != nothing) {
    for (; piece != nothing; piece = next_piece_[piece]) {
      if (!staging_->read_ahead(piece, entries_[entry].age)) return;
    }
    entry = entries_[entry].older;
    piece = entry;
  }
}

void ActivationStore::drop_all() {
  while (newest_ != nothing) release(newest_);
}

void ActivationStore::check_empty(std::string_view act) const {
  if (entry_count_ == 0) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} while activations are stashed: keys {}: fetch them, or give them up by drop_stashes()",
                          act, live_keys()));
}

void ActivationStore::reset_waited() {
  if (staging_) staging_->reset_waited();
}

std::string ActivationStore::live_keys() const {
  if (entry_count_ == 0) return "none";
  std::string text;
  std::size_t shown = 0;
  for (std::uint32_t entry = newest_; entry != nothing && shown < shown_key_count; entry = entries_[entry].older) {
    text += fmt::format("{}{}", shown == 0 ? "" : ", ", entries_[entry].key);
    ++shown;
  }
  if (entry_count_ > shown) text += fmt::format(" and {} more", entry_count_ - shown);
  return text;
}

}  // namespace strata::engine
