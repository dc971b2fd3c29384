// Gradient accumulators that lie on nvme: a unit's shard in memory for as long as a reduction writes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <strata/communicator.h>
#include <strata/event.h>
#include "engine/context.h"

namespace strata::engine {

// Two buffers take turns, so that one is stored while the next reduction runs. Threading: the communication lane.
class AccumulatorStaging {
 public:
  explicit AccumulatorStaging(EngineContext& context);

  // The unit's accumulator; for mode `add` with what it holds. Throws io and corruption.
  std::span<float> open(std::size_t unit, ReduceMode mode);
  void close();  // stores what open() gave

 private:
  struct Buffer {
    std::byte* memory = nullptr;
    std::vector<Event> transfers;  // by chunk, of the unit that was in it last
  };

  std::size_t chunks_of(std::size_t unit) const;

  EngineContext& context_;
  std::vector<Buffer> buffers_;
  std::uint64_t opened_ = 0;
  std::size_t unit_ = 0;  // that is open
};

}  // namespace strata::engine
