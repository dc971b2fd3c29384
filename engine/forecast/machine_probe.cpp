#include <algorithm>
#include <array>
#include <vector>

#include <strata/detail/host_share.h>
#include <strata/machine_speed.h>
#include "engine/forecast/probes.h"

namespace strata {
namespace {

constexpr CallTag probe_tag{no_unit, 0, "probe"};
constexpr std::size_t rate_count = 7;

std::array<double*, rate_count> rates_of(MachineSpeed& speed) {
  return {&speed.memory_bytes_per_s,   &speed.gather_bytes_per_s,    &speed.reduce_bytes_per_s,
          &speed.seal_bytes_per_s,     &speed.disk_read_bytes_per_s, &speed.disk_write_bytes_per_s,
          &speed.disk_both_bytes_per_s};
}

// The lowest rate of the ranks that have one, and the longest call.
void agree_on_slowest(Communicator& communicator, MachineSpeed& speed) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<double> table(ranks * (rate_count + 1), 0.0);
  double* const own = table.data() + static_cast<std::size_t>(communicator.rank()) * (rate_count + 1);
  const auto rates = rates_of(speed);
  for (std::size_t i = 0; i < rate_count; ++i) own[i] = *rates[i];
  own[rate_count] = speed.call_overhead_s;
  communicator.all_reduce(table, probe_tag);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const double* const row = table.data() + rank * (rate_count + 1);
    for (std::size_t i = 0; i < rate_count; ++i) {
      if (row[i] > 0 && (*rates[i] == 0 || row[i] < *rates[i])) *rates[i] = row[i];
    }
    speed.call_overhead_s = std::max(speed.call_overhead_s, row[rate_count]);
  }
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
  agree_on_slowest(communicator, speed);
  return speed;
}

}  // namespace strata
