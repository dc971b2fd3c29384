// What this process may use of its host: cores, and memory as far as its control groups leave some.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

namespace strata::detail {

inline constexpr std::uint64_t unlimited_memory = std::numeric_limits<std::uint64_t>::max();

inline std::uint32_t usable_core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT(&set), 1));
}

// A control group that has a limit of memory, and what is taken of it.
struct MemoryGroup {
  std::uint64_t limit_bytes = unlimited_memory;
  std::uint64_t used_bytes = 0;

  std::uint64_t free_bytes() const {
    if (limit_bytes == unlimited_memory) return unlimited_memory;
    return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0;
  }
};

// The first number in a file of the kernel's; `otherwise` when there is none ("max").
inline std::uint64_t read_kernel_number(const std::string& path, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : otherwise;
}

// Of the control groups of this process and those around them, version 2 ("0::/path") or the memory controller of
// version 1, the one that leaves least.
inline MemoryGroup tightest_memory_group() {
  constexpr std::uint64_t limit_most_bytes = std::uint64_t{1} << 62;  // version 1 says "none" by a number beyond
  MemoryGroup tightest;
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string path = line.substr(second + 1);
    while (true) {
      const std::string folder = root + path + (path.ends_with('/') ? "" : "/");
      MemoryGroup group;
      group.limit_bytes =
          read_kernel_number(folder + (unified ? "memory.max" : "memory.limit_in_bytes"), unlimited_memory);
      group.used_bytes = read_kernel_number(folder + (unified ? "memory.current" : "memory.usage_in_bytes"), 0);
      if (group.limit_bytes > limit_most_bytes) group.limit_bytes = unlimited_memory;
      if (group.free_bytes() < tightest.free_bytes()) tightest = group;
      const std::size_t slash = path.rfind('/');
      if (slash == std::string::npos || path.size() <= 1) break;
      path.resize(std::max<std::size_t>(slash, 1));
    }
  }
  return tightest;
}

// MemAvailable of /proc/meminfo.
inline std::uint64_t available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib && std::getline(file, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return unlimited_memory;
}

inline std::uint64_t free_memory_bytes() {
  return std::min(available_memory_bytes(), tightest_memory_group().free_bytes());
}

}  // namespace strata::detail
