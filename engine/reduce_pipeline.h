// Takes gradients from the caller and sums them over ranks, on the communication lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/accumulator_staging.h"
#include "engine/context.h"

namespace strata::engine {

// The first non-finite value that a reduction found.
struct Finding {
  int rank = -1;  // whose gradient it was; -1: the sum overflowed
  std::size_t unit = 0;
  std::size_t offset = 0;  // elements from the start of the unit's trainable part
};

class ReducePipeline {
 public:
  explicit ReducePipeline(EngineContext& context);

  struct Slot {
    std::size_t index = 0;
    std::byte* data = nullptr;  // null: the unit has nothing to train
  };

  // A free slot for the unit's gradients, the same on all ranks. Waits until its last reduction is done. Throws
  // invalid_argument when --strata-leases are held already.
  Slot acquire(std::size_t unit);

  // Hands the slot's gradients in with this weight; 0: they are not read.
  void submit(std::size_t unit, std::size_t slot, float weight);

  // Policy step: reduces what was accumulated. To be called before agreement, by all ranks.
  void enqueue_step_reductions();

  std::size_t held_count() const { return held_count_; }
  std::string holders() const;
  const std::optional<Finding>& finding() const { return finding_; }  // REQUIRES a drained lane
  void end_round();                                                   // likewise

  double slot_waited_s = 0;  // the caller, for a free slot, since the last step
  double waited_s = 0;       // the caller, for the last reductions and the agreement

 private:
  struct SlotState {
    Event reduced;
    std::uint64_t used_at = 0;
    std::size_t holder = 0;  // unit
    bool held = false;
  };

  std::size_t choose(std::size_t unit) const;
  void reduce(std::size_t unit, const std::byte* source, Dtype dtype, const ReduceTarget& target, const CallTag& tag);
  void accumulate(std::size_t unit, const std::byte* source, float weight, ReduceMode mode);
  void zero_gaps(std::size_t unit, std::byte* data) const;

  EngineContext& context_;
  AccumulatorStaging staging_;
  std::vector<SlotState> slots_;
  std::size_t held_count_ = 0;
  std::uint64_t clock_ = 0;
  std::optional<Finding> finding_;  // written by the lane
};

}  // namespace strata::engine
