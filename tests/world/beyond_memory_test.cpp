// A model whose state is many times the memory that the kernel allows trains, and holds what the plan says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include <strata/detail/cast.h>
#include <strata/strata.h>

#include "support/fresh_folder.h"
#include "support/memory_cgroup.h"
#include "support/process_fork.h"

namespace strata::test {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
constexpr std::uint64_t limit_bytes = 96 * mib;
constexpr std::int64_t unit_elements = 1 << 20;
constexpr std::uint64_t unit_count = 48;  // 16 bytes of state an element: 768 MiB

std::vector<Unit> large_units() {
  std::vector<Unit> units;
  for (std::uint64_t i = 0; i < unit_count; ++i) {
    units.push_back(
        {.name = fmt::format("block.{}", i), .tensors = {{.name = fmt::format("w.{}", i), .shape = {unit_elements}}}});
  }
  return units;
}

std::uint64_t status_kib(std::string_view field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::stoull(line.substr(field.size() + 1));
  }
  return 0;
}

// Three steps towards zero. What was wrong, or nothing.
std::string train(const std::string& folder) {
  const auto world = solo_world();
  Options options;
  options.nvme_dirs = {folder};
  options.leases = 1;
  options.prefetch = 0;
  options.device_memory_bytes = 12 * mib;
  options.host_memory_bytes = 24 * mib;
  options.threads = 1;
  Engine engine(large_units(), adamw({}), *world, options);
  engine.initialize(
      [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 1.0f); });
  for (int step = 0; step < 3; ++step) {
    engine.micro_batch({.weight = 1});
    for (const Unit& unit : engine.backward_order()) {
      const ParamLease parameters = engine.gather(unit);
      GradLease gradients = engine.gradients(unit);
      const auto values = parameters.bf16(unit.tensors[0].name);
      const auto slopes = gradients.f32(unit.tensors[0].name);
      for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = detail::to_f32(values[i]);
      gradients.commit();
    }
    if (!engine.step({.lr = 0.1}).applied) return "a step was skipped";
  }
  for (const Unit& unit : engine.forward_order()) {
    const ParamLease parameters = engine.gather(unit);
    for (const bf16 value : parameters.bf16(unit.tensors[0].name)) {
      const float is = detail::to_f32(value);
      if (is < 0.6f || is > 0.8f) return fmt::format("a parameter is {} after three steps of about 0.1 from 1", is);
    }
  }
  const Plan& plan = engine.plan();
  const std::uint64_t planned = plan.total_bytes(TierKind::device) + plan.total_bytes(TierKind::host);
  const std::uint64_t anonymous = status_kib("RssAnon:") * 1024, shared = status_kib("RssShmem:") * 1024;
  constexpr std::uint64_t constant = 64 * mib;
  if (anonymous + shared > planned + constant) {
    return fmt::format("{} bytes resident, {} planned:\n{}", anonymous + shared, planned, plan.table());
  }
  if (plan.total_bytes(TierKind::nvme) < 8 * limit_bytes) return "less than 8 times the limit lies on nvme";
  return "";
}

TEST(BeyondMemory, eight_times_what_the_kernel_allows) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own memory is beyond the limit";
#endif
  const MemoryCgroup group(limit_bytes);
  if (!group.valid()) GTEST_SKIP() << group.reason();
  const FreshFolder folder(STRATA_SCRATCH);
  ForkedCall child([&]() -> std::string {
    if (!group.enter()) return "cannot enter the control group";
    return train(folder.path());
  });
  EXPECT_EQ(child.result(200), "");
  EXPECT_GT(group.peak_bytes(), 16 * mib);
  EXPECT_LE(group.peak_bytes(), limit_bytes);
}

}  // namespace
}  // namespace strata::test
