// Memory that the ranks of a host share: one file without a name, which grows by a block per allocation.
//
//   control area | block 1: rank 0's part, rank 1's part, ... | block 2: ...
//
// Blocks are never taken back before the file ends, so a peer may be late.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <strata/communicator.h>
#include <strata/detail/thread_annotations.h>
#include <strata/detail/unique_fd.h>

namespace strata::sharding {

inline constexpr std::size_t page_bytes = 4096;

// The file, and this process's mappings of it. Ranks that are threads of one process share an object, and so mappings.
// Threading: any thread.
class ExchangeSegment {
 public:
  explicit ExchangeSegment(detail::UniqueFd file) : file_(std::move(file)) {}

  // Takes pages for [offset, offset + bytes), growing the file if need be; the calling process pays for them. Returns 0
  // or the errno; asks what is free before it takes, for the kernel would rather end a process than refuse. Calls
  // `beat` every few hundred MiB.
  int reserve(std::size_t offset, std::size_t bytes, const std::function<void()>& beat);
  void give_back(std::size_t offset, std::size_t bytes);

  // Null, with errno set, when the address space is short. The mapping ends with its last owner.
  std::shared_ptr<std::byte> map(std::size_t offset, std::size_t bytes);

 private:
  const detail::UniqueFd file_;
  std::mutex mutex_;
  std::map<std::size_t, std::weak_ptr<std::byte>> mappings_ STRATA_GUARDED_BY(mutex_);  // by offset
};

// A file for a new segment, empty. Throws Error{io}.
detail::UniqueFd make_segment_file();

// Where an address lies in the exchanged memory.
struct ExchangePlace {
  std::byte* base = nullptr;  // of the block: rank r's part starts at base + r * part_bytes (common: at base)
  std::size_t part_bytes = 0;
  std::size_t offset_bytes = 0;  // within this rank's part (common: within the block)
  std::size_t end_bytes = 0;     // of this rank's part (common: of the block)
  Sharing sharing = Sharing::per_rank;
  std::uint64_t segment_offset = 0;  // of the block

  std::byte* of_rank(int rank) const {
    return base + (sharing == Sharing::per_rank ? static_cast<std::size_t>(rank) * part_bytes : 0) + offset_bytes;
  }
};

// One rank's blocks. Threading: one thread at a time.
class ExchangeArena {
 public:
  ExchangeArena(std::shared_ptr<ExchangeSegment> segment, int rank, int size, std::size_t first_offset)
      : segment_(std::move(segment)), rank_(rank), size_(size), next_offset_(first_offset) {}

  // Of a block that is asked for with `bytes`: this rank's share of its pages.
  std::size_t own_bytes(std::size_t bytes, Sharing sharing) const;

  // Takes and touches this rank's pages of the next block. Returns 0 or the errno. To be followed, when all ranks are
  // done, by `publish`, or by `abandon` when one of them failed.
  int prepare(std::size_t bytes, Sharing sharing, const std::function<void()>& beat);
  ExchangeBlock publish();
  void abandon();

  // Gives this rank's pages of a block back. REQUIRES that no rank uses the block any more.
  void release(const ExchangePlace& place);

  // Nothing for an address outside living blocks, or in a peer's part.
  std::optional<ExchangePlace> find(const void* address) const;

 private:
  struct Block {
    std::size_t offset = 0;  // in the segment
    std::size_t bytes = 0;   // as asked for
    Sharing sharing = Sharing::per_rank;
    std::weak_ptr<std::byte> mapping;
    std::byte* base = nullptr;
  };

  std::size_t block_bytes(const Block& block) const;

  const std::shared_ptr<ExchangeSegment> segment_;
  const int rank_;
  const int size_;
  std::size_t next_offset_;
  std::vector<Block> blocks_;
  Block pending_;
  std::shared_ptr<std::byte> pending_mapping_;
};

}  // namespace strata::sharding
