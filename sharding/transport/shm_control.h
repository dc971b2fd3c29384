// The control area at the start of the segment: what ranks tell each other beside the bytes themselves.
//
//   JobControl, 4 KiB | RankControl of rank 0 | RankControl of rank 1 | ...
//
// A file starts as zeros, and all zeros is the state before anything has happened. INVARIANT: only rank r writes to
// RankControl r; anyone may write to JobControl.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <strata/communicator.h>

namespace strata::sharding {

enum class Operation : std::uint8_t { none, allocate, all_gather, reduce_scatter, all_reduce, barrier, release };

// One call of one rank, as its peers see it.
struct CallHeader {
  std::uint64_t sequence = 0;
  std::uint64_t count = 0;  // elements; of allocate: bytes
  std::uint64_t caller_hash = 0;
  std::uint64_t place =
      0;  // where the exchanged memory lies: the block's offset in the segment + the offset in the block
  std::uint32_t unit = no_unit;
  float weight = 0;  // of the source; not compared
  Operation operation = Operation::none;
  Dtype dtype = Dtype::f32;
  Dtype reduce_dtype = Dtype::f32;
  Sharing sharing = Sharing::per_rank;
  std::array<char, 20> act{};  // for messages, cut; not compared
};

constexpr std::string_view to_string(Sharing sharing) { return sharing == Sharing::common ? "common" : "per_rank"; }

// A rank posts header s + 1 only after all peers have compared header s - 1, so two would do.
inline constexpr std::size_t header_ring_count = 4;

inline constexpr std::size_t scratch_bytes = 8192;

struct alignas(4096) RankControl {
  std::atomic<std::uint64_t> posted;               // sequence of the last header
  alignas(64) std::atomic<std::uint64_t> arrived;  // barriers within calls, since the start
  alignas(64) std::atomic<std::int64_t> beat_ns;   // monotonic; 0: not here yet
  std::atomic<std::uint32_t> left;                 // 1: ended in an orderly way
  alignas(64) std::array<CallHeader, header_ring_count> headers;
  std::array<std::int32_t, header_ring_count> results;  // of the calls in `headers`, where there is one: 0 or an errno
  alignas(64) std::array<std::byte, scratch_bytes> scratch;  // values of a small all_reduce
};

inline constexpr std::size_t abort_text_bytes = 1024;

struct alignas(4096) JobControl {
  std::atomic<std::uint32_t> bell;  // bit 0: somebody may sleep; the rest counts what has happened
  // 0: none. 2 r + 1: rank r writes its cause (for ever, if it dies meanwhile). 2 r + 2: the cause is there.
  alignas(64) std::atomic<std::uint32_t> abort_state;
  std::array<char, abort_text_bytes> abort_text;  // ends with 0
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::size_t control_bytes(int size) {
  return sizeof(JobControl) + static_cast<std::size_t>(size) * sizeof(RankControl);
}

}  // namespace strata::sharding
