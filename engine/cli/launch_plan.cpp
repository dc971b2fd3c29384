#include "engine/cli/launch_plan.h"

#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <strata/error.h>

namespace strata::cli {
namespace {

std::string random_job() {
  std::array<std::uint64_t, 2> bits = {};
  if (::getrandom(bits.data(), sizeof(bits), 0) != static_cast<ssize_t>(sizeof(bits))) {
    throw Error(ErrorCode::io, fmt::format("getrandom: {}", std::strerror(errno)));
  }
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

// Cores that this process may use, which can be fewer than the machine has, or more than a fixed mask holds.
int usable_cores() {
  for (int cores_max = 1024; cores_max <= 1 << 20; cores_max *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(cores_max),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const std::size_t bytes = CPU_ALLOC_SIZE(cores_max);
    if (mask && ::sched_getaffinity(0, bytes, mask.get()) == 0) return std::max(1, CPU_COUNT_S(bytes, mask.get()));
    if (errno != EINVAL) break;
  }
  return 1;
}

bool is_variable(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

}  // namespace

std::vector<std::string> LaunchPlan::environment(int rank) const {
  const std::array<std::pair<std::string_view, std::string>, 4> place = {
      {{"STRATA_RANK", std::to_string(rank)},
       {"STRATA_WORLD_SIZE", std::to_string(rank_count)},
       {"STRATA_LOCAL_RANK", std::to_string(rank)},
       {job_variable, job}}};
  std::vector<std::string> entries;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const bool replaced =
        std::any_of(place.begin(), place.end(), [&](const auto& own) { return is_variable(*entry, own.first); });
    if (!replaced) entries.emplace_back(*entry);
  }
  for (const auto& [name, value] : place) entries.push_back(fmt::format("{}={}", name, value));
  if (std::getenv("OMP_NUM_THREADS") == nullptr) entries.push_back(fmt::format("OMP_NUM_THREADS={}", threads));
  return entries;
}

LaunchPlan plan_launch(int rank_count, std::vector<std::string> words) {
  LaunchPlan plan;
  plan.rank_count = rank_count;
  plan.words = std::move(words);
  plan.job = random_job();
  plan.threads = std::max(1, usable_cores() / rank_count);
  return plan;
}

}  // namespace strata::cli
