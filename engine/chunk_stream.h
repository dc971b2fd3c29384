// Brings the chunks of a pass over the state through a few slots of memory: while one is worked on, the next are loaded
// and the last ones stored. What lies in memory needs no slot and is used in place.
//
// Slots are taken in turn, in the order of the pass. A slot that is free again goes on to the next chunk at once, so
// load, work and store overlap as far as there are slots. preload() begins the next pass early: records stay what they
// are until then.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <strata/event.h>
#include "engine/context.h"

namespace strata::engine {

enum class Access : std::uint8_t {
  read,    // records
  write,   // records and published values, which hold nothing before
  update,  // records, gradients and published values
};

// A chunk of this rank's state with all that the pass needs in memory.
struct ChunkView {
  std::size_t unit = 0;
  std::size_t index = 0;
  std::size_t begin = 0;  // elements from the start of this rank's state
  std::size_t count = 0;
  float* master = nullptr;             // null when split
  std::uint16_t* remainder = nullptr;  // split: the masters' lower halves
  std::array<float*, moments_max> moments = {};
  const float* gradient = nullptr;  // access `update` alone
  std::byte* published = nullptr;   // access `write` and `update`, and where it lies in memory
  std::size_t slot = no_slot;

  static constexpr std::size_t no_slot = ~std::size_t{0};
};

// Threading: one thread at a time.
class ChunkStream {
 public:
  explicit ChunkStream(EngineContext& context);

  std::size_t chunk_count_of(std::size_t unit) const;
  bool needs_slot(std::size_t unit, std::size_t index) const;

  // The pass goes over all chunks of these units, in this order.
  void begin(Access access, std::span<const std::uint32_t> units);

  ChunkView in_place(std::size_t unit, std::size_t index) const { return view_of(unit, index); }  // needs no slot

  // REQUIRES for chunks that need a slot the order of the pass. Waits for the loads; throws io and corruption.
  ChunkView take(std::size_t unit, std::size_t index);
  void give_back(const ChunkView& view);  // the stores run on

  // Waits for the stores of the pass. The next pass may begin without.
  void wait_stored();

  // Loads the records of the first chunks of the next pass, which is likely to be an update of these units.
  void preload(std::span<const std::uint32_t> units);

  // The masters of a chunk as f32: in place, or of a split one in a buffer of the stream that the next call reuses.
  // join_masters fills it, split_masters takes its values back into the chunk.
  std::span<float> join_masters(const ChunkView& view);
  void split_masters(const ChunkView& view, std::span<const float> masters);

  std::span<std::byte> spare_published_room() const;  // a slot's room for published values, between passes

 private:
  struct Slot {
    std::byte* memory = nullptr;
    std::size_t unit = 0;
    std::size_t index = 0;
    Event record_loaded, gradient_loaded;
    Event record_stored, published_stored;
  };
  struct Position {
    std::size_t order = 0;  // in order_
    std::size_t index = 0;  // chunk of that unit
  };

  bool find_next(Position& position) const;  // the next chunk that needs a slot, from here on; false at the end
  void load(Slot& slot);
  void load_gradient(Slot& slot);
  void load_ahead();
  void discard();
  bool adopt(std::span<const std::uint32_t> units);
  ChunkView view_of(std::size_t unit, std::size_t index) const;
  std::size_t record_item(std::size_t unit, std::size_t index) const;
  bool record_on_nvme(std::size_t unit, std::size_t index) const;

  EngineContext& context_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> order_;
  Position loaded_to_;         // where the next load comes from
  std::uint64_t taken_ = 0;    // chunks taken in this pass; slot = number mod slots
  std::uint64_t loading_ = 0;  // chunks whose load has begun
  std::uint64_t given_back_ = 0;
  Access access_ = Access::read;
  bool records_alone_ = false;  // preloading: gradients are not there yet
};

}  // namespace strata::engine
