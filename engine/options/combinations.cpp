#include "engine/options/combinations.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include <strata/bytes.h>
#include <strata/error.h>

#include "engine/options/table.h"

namespace strata::detail {
namespace {

std::string given(std::string_view name, const Options& options) {
  return fmt::format("{} {}", flag_of(name), find_option(name)->print(options));
}

[[noreturn]] void refuse(const std::string& what, std::string_view why, std::string_view remedy) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{} is not possible: {}; {}", what, why, remedy));
}

bool below_device(Home home) { return home == Home::host || home == Home::nvme; }

void refuse_disk_without_directory(const Options& options) {
  if (!options.nvme_dirs.empty()) return;
  constexpr std::string_view why = "there is no directory for it";
  constexpr std::string_view remedy = "give one with --strata-nvme-dir";
  struct Kind {
    std::string_view name;
    Home home;
  };
  const std::array<Kind, 4> kinds = {{{"params", options.params},
                                      {"optimizer", options.optimizer},
                                      {"gradients", options.gradients},
                                      {"activations", options.activations}}};
  for (const Kind& kind : kinds) {
    if (kind.home == Home::nvme) refuse(given(kind.name, options), why, remedy);
  }
  if (options.nvme_memory_bytes) refuse(given("nvme-memory", options), why, remedy);
}

void refuse_homes_of_what_is_whole(const Options& options) {
  if (below_device(options.params) && options.stage < 3) {
    refuse(fmt::format("{} with {}", given("params", options), given("stage", options)),
           "published parameters are whole at stages 0 to 2, and only stage 3 keeps a shard elsewhere",
           "use --strata-stage 3");
  }
  if (!below_device(options.gradients)) return;
  constexpr std::string_view why = "accumulators are whole there, and peers read them";
  if (options.stage == 0) {
    refuse(fmt::format("{} with {}", given("gradients", options), given("stage", options)), why,
           "use --strata-stage 1, 2 or 3");
  }
  if (options.reduce == ReducePolicy::step) {
    refuse(fmt::format("{} with {}", given("gradients", options), given("reduce", options)), why,
           "use --strata-reduce micro_batch");
  }
}

void refuse_blocks_beyond_inflight(const Options& options) {
  if (options.io_inflight_bytes >= options.io_block_bytes) return;
  refuse(fmt::format("{} of {} with {} of {}", flag_of("io-inflight"), format_bytes(options.io_inflight_bytes),
                     flag_of("io-block"), format_bytes(options.io_block_bytes)),
         "not even one block could be under way", "raise --strata-io-inflight or lower --strata-io-block");
}

}  // namespace

void refuse_illegal_combinations(const Options& options) {
  refuse_disk_without_directory(options);
  refuse_homes_of_what_is_whole(options);
  refuse_blocks_beyond_inflight(options);
}

}  // namespace strata::detail
