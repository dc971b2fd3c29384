#include <algorithm>
#include <array>

#include <strata/detail/host_share.h>
#include <strata/machine_speed.h>
#include "engine/forecast/probes.h"

namespace strata {
namespace {

constexpr CallTag probe_tag{no_unit, 0, "probe"};
constexpr std::size_t value_count = 10;

std::array<double*, value_count> values_of(MachineSpeed& speed) {
  return {&speed.memory_bytes_per_s,     &speed.gather_bytes_per_s,    &speed.reduce_bytes_per_s,
          &speed.split_bytes_per_s,      &speed.seal_bytes_per_s,      &speed.disk_read_bytes_per_s,
          &speed.disk_write_bytes_per_s, &speed.disk_both_bytes_per_s, &speed.disk_processor_s_per_byte,
          &speed.call_overhead_s};
}

// The mean over the ranks that have measured a value.
void agree_on_means(Communicator& communicator, MachineSpeed& speed) {
  const auto values = values_of(speed);
  std::array<double, 2 * value_count> sums{};  // values, and how many ranks have one
  for (std::size_t i = 0; i < value_count; ++i) {
    sums[i] = *values[i];
    sums[value_count + i] = *values[i] > 0 ? 1 : 0;
  }
  communicator.all_reduce(sums, probe_tag);
  for (std::size_t i = 0; i < value_count; ++i) *values[i] = sums[i] / std::max(sums[value_count + i], 1.0);
}

}  // namespace

MachineSpeed probe_machine(Communicator& communicator, const Options& options) {
  const auto ranks = static_cast<std::uint32_t>(communicator.size());
  const std::uint32_t threads =
      options.threads.value_or(std::max<std::uint32_t>(detail::usable_core_count() / ranks, 1));
  MachineSpeed speed;
  engine::probe_calls(communicator, speed);
  engine::probe_memory(communicator, threads, speed);
  std::array<std::uint64_t, 1> ranks_with_disk{options.nvme_dirs.empty() ? 0u : 1u};
  communicator.all_reduce(ranks_with_disk, probe_tag);
  if (ranks_with_disk[0] > 0) engine::probe_disk(communicator, options, speed);
  agree_on_means(communicator, speed);
  return speed;
}

}  // namespace strata
