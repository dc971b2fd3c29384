#include <algorithm>
#include <atomic>
#include <cstring>

#include <strata/optimizer.h>
#include "engine/forecast/probes.h"
#include "engine/forecast/repeated_rate.h"
#include "engine/update_team.h"
#include "offload/checksum.h"
#include "offload/private_memory.h"
#include "optim/split_master.h"
#include "sharding/reduce_kernel.h"
#include "sharding/stream_copy.h"

namespace strata::engine {
namespace {

constexpr CallTag probe_tag{no_unit, 0, "probe"};
constexpr std::size_t element_count = std::size_t{2} << 20;
constexpr std::size_t chunk_count = std::size_t{1} << 16;
constexpr std::size_t floats_per_element = 4;  // master, two moments, gradient; half a float is published
constexpr double update_moment_s = 0.06;
constexpr double moment_s = 0.02;

// State of an optimizer, larger than most caches.
class Scratch {
 public:
  Scratch() : memory_(element_count * (floats_per_element * sizeof(float) + sizeof(bf16))) {
    std::fill_n(array(0), floats_per_element * element_count, 1e-3f);  // zeros would be quicker than life is
  }

  float* array(std::size_t index) const { return memory_.as<float>().data() + index * element_count; }
  bf16* published() const { return reinterpret_cast<bf16*>(array(floats_per_element)); }
  std::span<std::byte> bytes() const { return memory_.bytes(); }

  UpdatePiece piece(std::size_t first) const {
    UpdatePiece piece;
    piece.count = chunk_count;
    piece.master = array(0) + first;
    piece.moments = {array(1) + first, array(2) + first};
    piece.gradient = array(3) + first;
    piece.published = published() + first;
    return piece;
  }

 private:
  offload::PrivateMemory memory_;
};

double update_rate(const Scratch& scratch, std::uint32_t threads) {
  UpdateTeam team(threads);
  const auto optimizer = adamw();
  UpdateStep step;
  step.lr = 1e-6f;
  step.applied_count = 100;
  const std::size_t element_bytes = 2 * 3 * sizeof(float) + sizeof(float) + sizeof(bf16);
  return repeated_rate(static_cast<double>(element_count * element_bytes), update_moment_s, [&] {
    team.run(element_count / chunk_count,
             [&](std::size_t chunk) noexcept { optimizer->update(scratch.piece(chunk * chunk_count), step); });
  });
}

// As many sources as there are ranks, up to what the scratch holds.
double reduce_rate(const Scratch& scratch, int ranks) {
  sharding::ReduceSource sources[3];
  const auto count = static_cast<std::size_t>(std::min(ranks, 3));
  for (std::size_t i = 0; i < count; ++i) sources[i] = {scratch.array(i), 1e-3f, static_cast<int>(i)};
  sharding::ReduceJob job;
  job.sources = {sources, count};
  job.accumulator = scratch.array(3);
  job.count = element_count;
  return repeated_rate(static_cast<double>(element_count * sizeof(float) * (count + 1)), moment_s,
                       [&] { sharding::reduce_slices(job); });
}

double gather_rate(const Scratch& scratch) {
  const std::size_t half_bytes = scratch.bytes().size() / 2;
  return repeated_rate(static_cast<double>(2 * half_bytes), moment_s, [&] {
    sharding::stream_copy(scratch.bytes().data() + half_bytes, scratch.bytes().data(), half_bytes);
  });
}

double seal_rate(const Scratch& scratch) {
  std::uint64_t sum = 0;
  const double rate = repeated_rate(static_cast<double>(scratch.bytes().size()), moment_s,
                                    [&] { sum += offload::checksum(scratch.bytes(), sum); });
  return rate;
}

// By tiles that stay in the first cache, as the update does.
double split_rate(const Scratch& scratch) {
  constexpr std::size_t tile_count = 4096;
  auto* const halves = reinterpret_cast<std::uint16_t*>(scratch.array(1));
  return repeated_rate(static_cast<double>(element_count * sizeof(float)), moment_s, [&] {
    for (std::size_t first = 0; first < element_count; first += tile_count) {
      optim::join_masters({halves + first, tile_count}, {halves + element_count + first, tile_count}, scratch.array(0));
      optim::split_masters({scratch.array(0), tile_count}, halves + element_count + first);
    }
  });
}

}  // namespace

void probe_memory(Communicator& communicator, std::uint32_t threads, MachineSpeed& speed) {
  const Scratch scratch;
  communicator.barrier(probe_tag);
  speed.memory_bytes_per_s = update_rate(scratch, threads);
  communicator.barrier(probe_tag);
  speed.reduce_bytes_per_s = reduce_rate(scratch, communicator.size());
  communicator.barrier(probe_tag);
  speed.gather_bytes_per_s = gather_rate(scratch);
  communicator.barrier(probe_tag);
  speed.seal_bytes_per_s = seal_rate(scratch);
  communicator.barrier(probe_tag);
  speed.split_bytes_per_s = split_rate(scratch);
}

void probe_calls(Communicator& communicator, MachineSpeed& speed) {
  constexpr int call_count = 64;
  communicator.barrier(probe_tag);
  const double calls_per_s = repeated_rate(call_count, 0, [&] {
    for (int i = 0; i < call_count; ++i) communicator.barrier(probe_tag);
  });
  speed.call_overhead_s = calls_per_s > 0 ? 1 / calls_per_s : 0;
}

}  // namespace strata::engine
