// Applies a step to the state this rank holds, chunk by chunk, unit by unit in the order in which they are wanted next.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/chunk_stream.h"
#include "engine/context.h"
#include "engine/update_team.h"

namespace strata::engine {

struct StepScalars {
  double lr = 0;
  std::uint64_t applied_count = 1;
  float gradient_scale = 1;
};

class UpdatePipeline {
 public:
  explicit UpdatePipeline(EngineContext& context);

  // Enqueues the update of every unit with gradients, and (stages 0-2) what makes the published copy whole again.
  void enqueue(const std::vector<std::uint32_t>& order, const StepScalars& scalars);

  // For passes over the state between steps. REQUIRES drained lanes.
  ChunkStream& chunks() { return chunks_; }

  std::uint64_t take_overflow_count() { return overflow_count_.exchange(0, std::memory_order_relaxed); }

 private:
  void update_unit(std::size_t unit, const StepScalars& scalars);
  void update_range(const ChunkView& view, sharding::FlatRange range, const StepScalars& scalars) noexcept;
  void update_split_range(const ChunkView& view, sharding::FlatRange range, const StepScalars& scalars) noexcept;
  void update_run(const ChunkView& view, sharding::FlatRange range, float* master, const StepScalars& scalars) noexcept;

  EngineContext& context_;
  ChunkStream chunks_;
  UpdateTeam team_;
  std::vector<std::uint32_t> order_;  // of the step that is under way on the update lane
  std::atomic<std::uint64_t> overflow_count_{0};
};

}  // namespace strata::engine
