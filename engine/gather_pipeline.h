// Brings units to the caller: along the recorded order ahead of time, on the communication lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/context.h"
#include "engine/residency.h"
#include "engine/schedule.h"
#include "engine/shard_loader.h"

namespace strata::engine {

class GatherPipeline {
 public:
  explicit GatherPipeline(EngineContext& context);

  // The unit's published parameters, when they are there. Throws invalid_argument when too many units are held.
  const std::byte* gather(std::size_t unit);
  void release(std::size_t unit) { residency_.release(unit); }

  std::size_t held_unit_count() const { return residency_.held_unit_count(); }
  std::string holders() const;  // "'embed', 'block.3'"

  void begin_evaluation() { schedule_ = &evaluation_; }
  void end_evaluation();
  bool evaluating() const { return schedule_ == &evaluation_; }

  // The step is over: gathered copies are of the past. REQUIRES no holders and a drained lane.
  void end_round();

  ShardLoader& loader() { return loader_; }  // for passes over the state. REQUIRES drained lanes.

  // Units in the order in which the next round will want them.
  void order_by_use(std::vector<std::uint32_t>& order);

  double update_waited_s = 0;  // the caller, for the unit's update, since the last step
  double waited_s = 0;         // the caller, for the unit to be brought

 private:
  void enqueue_gather(std::size_t unit, std::size_t slot);
  void prefetch();
  std::byte* slot_data(std::size_t slot) const {
    return context_.memory.param_slots.bytes().data() + context_.needs.param_slots.offsets[slot];
  }

  EngineContext& context_;
  ShardLoader loader_;
  Residency residency_;
  Schedule training_;
  Schedule evaluation_;
  Schedule* schedule_ = &training_;
  std::vector<std::uint8_t> seen_;  // scratch of order_by_use
};

}  // namespace strata::engine
