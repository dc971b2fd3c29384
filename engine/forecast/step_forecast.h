// How long a step will take: its traffic at the machine's speed, overlapped as the engine overlaps it.
#pragma once

#include <cstdint>
#include <vector>

#include <strata/machine_speed.h>

namespace strata::engine {

// What the update of one chunk moves on this rank; `count` chunks alike.
struct ChunkTraffic {
  std::uint32_t count = 0;
  double memory_bytes = 0;  // read and written by the optimizer's pass
  double load_bytes = 0;    // from nvme
  double store_bytes = 0;   // to nvme
  double split_bytes = 0;   // masters that are joined and cut again
};

// What one unit moves on this rank. UNITS: bytes of memory count as in MachineSpeed.
struct UnitTraffic {
  double forward_s = 0;  // arithmetic of one micro-batch
  double backward_s = 0;
  double gather_bytes = 0;        // exchanged by each gather of stage 3
  double gather_load_bytes = 0;   // from nvme before it
  double commit_bytes = 0;        // exchanged by each commit
  double commit_load_bytes = 0;   // accumulators from nvme, by each commit but a step's first
  double commit_store_bytes = 0;  // and back, by each commit
  double step_bytes = 0;          // exchanged once a step, before the update
  double publish_bytes = 0;       // exchanged once a step, after it (stages 1 and 2)
  std::vector<ChunkTraffic> chunks;
};

struct StepTraffic {
  std::vector<UnitTraffic> units;  // in forward order
  std::uint32_t micro_batch_count = 1;
  std::uint32_t prefetch = 0;        // units gathered ahead
  std::uint32_t gathered_count = 2;  // units that stay gathered at once
  std::uint32_t slot_count = 0;      // chunks under way between nvme and memory at once
};

// Seconds from one step's end to the next one's, once the engine is in its rhythm. Pure. The compute device is a CPU:
// arithmetic, exchange and update take turns on the rank's cores; the disk works beside them.
double predict_step_s(const StepTraffic& traffic, const MachineSpeed& speed);

}  // namespace strata::engine
