#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include <strata/plan.h>

namespace strata {
namespace {

constexpr std::uint64_t unlimited_bytes = std::numeric_limits<std::uint64_t>::max();

// The first number in a file of the kernel's; `unlimited_bytes` when there is none ("max").
std::uint64_t read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : unlimited_bytes;
}

std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib && std::getline(file, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return unlimited_bytes;
}

std::uint64_t room(std::uint64_t limit, std::uint64_t used) {
  if (limit == unlimited_bytes || used == unlimited_bytes) return unlimited_bytes;
  return limit > used ? limit - used : 0;
}

// What the control groups of this process leave: version 2 ("0::/path") or the memory controller of version 1.
std::uint64_t control_group_bytes() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  std::uint64_t least = unlimited_bytes;
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      const std::string folder = "/sys/fs/cgroup" + path;
      least = std::min(least, room(read_number(folder + "/memory.max"), read_number(folder + "/memory.current")));
    } else if (controllers.find("memory") != std::string::npos) {
      const std::string folder = "/sys/fs/cgroup/memory" + path;
      least = std::min(
          least, room(read_number(folder + "/memory.limit_in_bytes"), read_number(folder + "/memory.usage_in_bytes")));
    }
  }
  return least;
}

std::uint32_t usable_core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT(&set), 1));
}

}  // namespace

Machine measure_machine(std::uint32_t local_rank_count) {
  Machine machine;
  machine.local_rank_count = std::max<std::uint32_t>(local_rank_count, 1);
  machine.core_count = usable_core_count();
  machine.device_free_bytes = std::min(available_bytes(), control_group_bytes()) / machine.local_rank_count;
  return machine;
}

}  // namespace strata
