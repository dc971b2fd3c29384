#include "sharding/exchange_arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include <strata/detail/host_share.h>
#include <strata/error.h>

namespace strata::sharding {

namespace {

constexpr std::size_t reserve_step_bytes = std::size_t{256} << 20;
constexpr int populate_write = 23;  // MADV_POPULATE_WRITE, Linux 5.14; older headers lack the name

std::size_t round_up(std::size_t bytes, std::size_t granule) { return (bytes + granule - 1) / granule * granule; }

// An older kernel refuses; the pages are reserved all the same, and the first touch maps them.
void populate(std::byte* begin, std::size_t bytes) {
  if (bytes != 0) madvise(begin, bytes, populate_write);
}

}  // namespace

detail::UniqueFd make_segment_file() {
  detail::UniqueFd file(memfd_create("strata", MFD_CLOEXEC));
  if (!file) throw Error(ErrorCode::io, fmt::format("memfd_create: {}", std::strerror(errno)));
  return file;
}

int ExchangeSegment::reserve(std::size_t offset, std::size_t bytes, const std::function<void()>& beat) {
  if (bytes > detail::free_memory_bytes()) return ENOMEM;
  while (bytes != 0) {
    const std::size_t step = std::min(bytes, reserve_step_bytes);
    // Twice the step, for peers take theirs at the same time.
    if (step == reserve_step_bytes && detail::free_memory_bytes() < 2 * step) return ENOMEM;
    if (fallocate(file_.get(), 0, static_cast<off_t>(offset), static_cast<off_t>(step)) != 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    offset += step;
    bytes -= step;
    beat();
  }
  return 0;
}

void ExchangeSegment::give_back(std::size_t offset, std::size_t bytes) {
  fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

std::shared_ptr<std::byte> ExchangeSegment::map(std::size_t offset, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (auto found = mappings_[offset].lock()) return found;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), static_cast<off_t>(offset));
  if (address == MAP_FAILED) return nullptr;
  std::shared_ptr<std::byte> mapping(static_cast<std::byte*>(address), [bytes](std::byte* at) { munmap(at, bytes); });
  mappings_[offset] = mapping;
  return mapping;
}

std::size_t ExchangeArena::own_bytes(std::size_t bytes, Sharing sharing) const {
  const std::size_t whole = round_up(std::max<std::size_t>(bytes, 1), page_bytes);
  if (sharing == Sharing::per_rank) return whole;
  return round_up((whole + static_cast<std::size_t>(size_) - 1) / static_cast<std::size_t>(size_), page_bytes);
}

std::size_t ExchangeArena::block_bytes(const Block& block) const {
  return own_bytes(block.bytes, block.sharing) * static_cast<std::size_t>(size_);
}

int ExchangeArena::prepare(std::size_t bytes, Sharing sharing, const std::function<void()>& beat) {
  pending_ = {next_offset_, bytes, sharing, {}, nullptr};
  const std::size_t whole = block_bytes(pending_);
  const std::size_t own = own_bytes(bytes, sharing);
  next_offset_ += whole;

  const std::size_t own_offset = static_cast<std::size_t>(rank_) * own;
  if (const int error = segment_->reserve(pending_.offset + own_offset, own, beat); error != 0) return error;
  pending_mapping_ = segment_->map(pending_.offset, whole);
  if (pending_mapping_ == nullptr) return errno;
  populate(pending_mapping_.get() + own_offset, own);
  pending_.mapping = pending_mapping_;
  pending_.base = pending_mapping_.get();
  return 0;
}

ExchangeBlock ExchangeArena::publish() {
  // The peers' pages exist by now; mapping them here keeps page faults out of the first collectives.
  populate(pending_.base, block_bytes(pending_));
  std::byte* own = pending_.base;
  if (pending_.sharing == Sharing::per_rank)
    own += static_cast<std::size_t>(rank_) * own_bytes(pending_.bytes, pending_.sharing);
  const auto dead =
      std::find_if(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.mapping.expired(); });
  if (dead == blocks_.end()) {
    blocks_.push_back(pending_);
  } else {
    *dead = pending_;
  }
  ExchangeBlock block({own, pending_.bytes}, std::move(pending_mapping_));
  pending_mapping_.reset();
  return block;
}

void ExchangeArena::abandon() {
  const std::size_t own = own_bytes(pending_.bytes, pending_.sharing);
  segment_->give_back(pending_.offset + static_cast<std::size_t>(rank_) * own, own);
  pending_mapping_.reset();
}

void ExchangeArena::release(const ExchangePlace& place) {
  const std::size_t own = own_bytes(place.end_bytes, place.sharing);
  segment_->give_back(place.segment_offset + static_cast<std::size_t>(rank_) * own, own);
}

std::optional<ExchangePlace> ExchangeArena::find(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  std::optional<ExchangePlace> at_an_end;  // where nothing is left, unless the next block begins there
  for (const Block& block : blocks_) {
    const std::size_t part = own_bytes(block.bytes, block.sharing);
    const std::byte* own = block.base;
    if (block.sharing == Sharing::per_rank) own += static_cast<std::size_t>(rank_) * part;
    if (at < own || at > own + block.bytes || block.mapping.expired()) continue;
    const ExchangePlace place{block.base,  part,          static_cast<std::size_t>(at - own),
                              block.bytes, block.sharing, block.offset};
    if (at < own + block.bytes) return place;
    at_an_end = place;
  }
  return at_an_end;
}

}  // namespace strata::sharding
