// Applies a step to the state this rank holds, chunk by chunk, unit by unit in the order in which they are wanted next.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/context.h"
#include "engine/update_team.h"

namespace strata::engine {

struct StepScalars {
  double lr = 0;
  std::uint64_t applied_count = 1;
  float gradient_scale = 1;
};

// Where a chunk's master and moments lie in a unit's records: master | moment 0 | moment 1, each `count` elements.
struct ChunkPlace {
  std::size_t begin = 0;  // elements from the start of this rank's state
  std::size_t count = 0;
  float* master = nullptr;
  std::array<float*, moments_max> moments = {};
};

class UpdatePipeline {
 public:
  explicit UpdatePipeline(EngineContext& context);

  // Enqueues the update of every unit with gradients, and (stages 0-2) what makes the published copy whole again.
  void enqueue(const std::vector<std::uint32_t>& order, const StepScalars& scalars);

  std::size_t chunk_count_of(std::size_t unit) const;
  ChunkPlace chunk(std::size_t unit, std::size_t index) const;

  std::uint64_t take_overflow_count() { return overflow_count_.exchange(0, std::memory_order_relaxed); }

 private:
  void update_unit(std::size_t unit, const StepScalars& scalars);
  void update_chunk(std::size_t unit, std::size_t index, const StepScalars& scalars) noexcept;
  std::byte* published_at(std::size_t unit, std::size_t element) const;

  EngineContext& context_;
  UpdateTeam team_;
  std::atomic<std::uint64_t> overflow_count_{0};
};

}  // namespace strata::engine
