#include <algorithm>

#include <strata/detail/host_share.h>
#include <strata/plan.h>

namespace strata {

Machine measure_machine(std::uint32_t local_rank_count) {
  Machine machine;
  machine.local_rank_count = std::max<std::uint32_t>(local_rank_count, 1);
  machine.core_count = detail::usable_core_count();
  machine.device_free_bytes = detail::free_memory_bytes() / machine.local_rank_count;
  machine.host_free_bytes = machine.device_free_bytes;
  return machine;
}

}  // namespace strata
