// How the ranks of a job talk: collectives over memory that peers can reach.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <strata/dtype.h>

namespace strata {

inline constexpr std::uint32_t no_unit = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::size_t norm_leaf_count = 256;  // elements of a leaf of the gradient norm

// What a collective belongs to. It travels in the header of each operation, and ranks whose headers differ all get
// Error{mismatch} that names both calls.
struct CallTag {
  std::uint32_t unit = no_unit;
  std::uint64_t caller_hash = 0;         // running hash over the caller's sequence of engine calls
  std::string_view act = "direct call";  // the caller's verb, for messages: "gather", "commit", "step"; not compared
};

enum class Sharing : std::uint8_t {
  per_rank,  // every rank has a block of its own, which peers can read
  common,    // one block for all ranks of a host (each owns an equal part of its pages); private where memory cannot be
             // shared
};

// Memory from Communicator::allocate, zeroed and touched, 4 KiB aligned. Unmapped by its destructor, without
// communication; the communicator keeps the pages until it ends, so peers may be late.
class ExchangeBlock {
 public:
  ExchangeBlock() = default;
  ExchangeBlock(std::span<std::byte> bytes, std::shared_ptr<void> owner) : bytes_(bytes), owner_(std::move(owner)) {}
  std::span<std::byte> bytes() const { return bytes_; }  // this rank's block, or the common one

 private:
  std::span<std::byte> bytes_;
  std::shared_ptr<void> owner_;
};

enum class ReduceMode : std::uint8_t { store, add };

struct ReduceTarget {
  std::span<float> accumulator{};  // shard_count elements of any memory; may be this rank's own slice of an f32 source
  ReduceMode mode = ReduceMode::store;
  float weight = 1.0f;              // of this rank's source; 0: the source is never read; finite, >= 0
  Dtype reduce_dtype = Dtype::f32;  // f32, or bf16/f16: each weighted term is rounded to it before the sum
  std::span<double> leaf_norms{};   // empty, or ceil(shard_count / 256) sums of squares of the final accumulator
};

struct ReduceOutcome {
  bool finite = true;       // of the final accumulator
  int nonfinite_rank = -1;  // the first rank whose source has a non-finite value there; -1: the sum overflowed
  std::size_t nonfinite_element = 0;  // the first such element, counted in the shard
};

struct Deadlines {
  double silence_s = 30;  // a peer whose heartbeat is older is lost
  double call_s = 600;    // a live peer that does not make the matching call ends the wait
};

struct CommunicatorCounters {
  std::uint64_t call_count = 0;
  std::uint64_t moved_bytes = 0;  // read from or written to memory of peers or common memory
  double peer_wait_s = 0;         // waiting for peers to make the matching call, a wait in progress included
};

// Collectives block until they are done on this rank and its buffers may be used again, or throw: peer_lost, mismatch.
// After a throw every later call throws the same cause. All ranks make the same calls in the same order; each call
// carries a header (sequence, operation, dtype, count, unit, caller hash) that is compared before any byte is written.
// Threading: one thread at a time; abort, beat and counters from any thread.
class Communicator {
 public:
  virtual ~Communicator() = default;  // leaves: peers that wait for this rank get peer_lost at once

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view kind() const = 0;  // "solo", "shm"

  // Collective, the same arguments on all ranks. Throws out_of_budget with the size when the system has not enough.
  virtual ExchangeBlock allocate(std::size_t bytes, Sharing sharing) = 0;

  // Collective: gives back a block of allocate's, the same one on all ranks, and its pages at once. REQUIRES that this
  // rank no longer uses it. An empty block is let go without a word to the peers.
  virtual void release(ExchangeBlock block) = 0;

  // Block r of target (shard_count elements) becomes rank r's source. `target` lies in a block from allocate (common:
  // each rank writes its part, once for all); `source` is any memory, or in place: block rank() of target.
  virtual void all_gather(const void* source, void* target, std::size_t shard_count, Dtype dtype,
                          const CallTag& tag) = 0;

  // accumulator (+)= ((w_0 g_0 + w_1 g_1) + w_2 g_2) + ... in f32 and rank order, where g_k is slice rank() of rank k's
  // source (size() * shard_count elements of `dtype`, in a per_rank block, the same place on all ranks). One pass takes
  // leaf norms (element i of a leaf into f64 lane i mod 8, lanes added pairwise) and looks for non-finite values.
  virtual ReduceOutcome reduce_scatter(const void* source, std::size_t shard_count, Dtype dtype,
                                       const ReduceTarget& target, const CallTag& tag) = 0;

  // Sums in rank order, in place, the same bits on all ranks; any memory.
  virtual void all_reduce(std::span<double> values, const CallTag& tag) = 0;
  virtual void all_reduce(std::span<std::uint64_t> values, const CallTag& tag) = 0;  // modulo 2^64

  virtual void barrier(const CallTag& tag) = 0;

  // Ends the job's communication for all ranks with this cause; their calls throw peer_lost with it, at once.
  virtual void abort(std::string_view cause) noexcept = 0;

  // Says that this process lives. To be called every silence_s / 8 while no collective runs.
  virtual void beat() noexcept = 0;

  virtual void set_deadlines(const Deadlines& deadlines) = 0;
  virtual CommunicatorCounters counters() const = 0;
};

}  // namespace strata
