// The way of activations to a disk and back: buffers that are written behind the caller, kept for as long as their room
// is not needed, and read ahead.
//
// A piece has at most one buffer, and a buffer changes its piece only when its last load or store is done; so a load
// never overtakes its store, and two stores of one piece never overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <strata/event.h>
#include <strata/tier.h>
#include "offload/private_memory.h"
#include "offload/sealed_store.h"

namespace strata::engine {

// `age` says when a piece was stashed: greater is newer. The least is needed last and gives up its buffer first.
// Threading: one thread.
class ActivationStaging {
 public:
  // Reserves the pieces in the tier, which outlives this. Throws out_of_budget.
  ActivationStaging(Tier& tier, std::size_t piece_count, std::uint64_t staging_bytes);
  ~ActivationStaging();  // buffers outlive the I/O that is under way in them
  ActivationStaging(const ActivationStaging&) = delete;
  ActivationStaging& operator=(const ActivationStaging&) = delete;

  // Copies up to a piece of bytes; they are on the disk later. Waits for a buffer. Throws what a store has failed with.
  void put(std::uint32_t piece, std::uint64_t age, std::span<const std::byte> bytes);

  // Begins to load a piece that has no buffer. False when no buffer is idle.
  bool read_ahead(std::uint32_t piece, std::uint64_t age);

  // The first bytes of the piece. Throws io or corruption; the next call loads the piece anew.
  void copy_out(std::uint32_t piece, std::uint64_t age, std::span<std::byte> target);

  // The piece's bytes are not wanted any more.
  void forget(std::uint32_t piece);

  double waited_s() const { return waited_s_; }  // since the last reset
  void reset_waited() { waited_s_ = 0; }

  // Of seals, buffers and their index.
  static constexpr std::size_t table_bytes_per_piece = offload::SealedStore::table_bytes_per_item + 64;

 private:
  static constexpr std::uint32_t nothing = ~std::uint32_t{0};
  enum class State : std::uint8_t {
    empty,
    stored,   // the caller's bytes, on their way to the disk or there
    loading,  // to be waited for and verified
    loaded,
  };
  struct Buffer {
    State state = State::empty;
    bool wanted = false;
    std::uint32_t piece = nothing;
    std::uint64_t age = 0;
    Event event;  // of the last load or store
  };

  std::span<std::byte> bytes_of(std::uint32_t buffer) const;
  std::uint32_t idle_buffer() const;
  std::uint32_t take_buffer(std::uint32_t piece, std::uint64_t age);  // waits
  void assign(std::uint32_t buffer, std::uint32_t piece, std::uint64_t age);
  void load(std::uint32_t buffer);
  void wait(const Event& event);

  offload::PrivateMemory memory_;
  offload::SealedStore sealed_;
  std::size_t first_item_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> buffer_of_;  // by piece
  double waited_s_ = 0;
};

}  // namespace strata::engine
