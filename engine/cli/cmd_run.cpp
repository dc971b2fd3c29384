#include "engine/cli/cmd_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <strata/error.h>

#include "engine/cli/exit_status.h"
#include "engine/cli/launch_plan.h"
#include "engine/cli/launcher.h"

namespace strata::cli {
namespace {

int usage_error(const std::string& text) {
  fmt::print(stderr, "strata run: {}\nTry 'strata run --help'.\n", text);
  return status_usage;
}

// `before`: what stood in front of the first "--" and was no option of ours.
int run(int rank_count, std::vector<std::string> before, std::span<char* const> behind) {
  if (!before.empty() && before.front().starts_with('-')) {
    return usage_error(
        fmt::format("unknown option '{}': options of the program stand behind its name", before.front()));
  }
  if (before.empty() && !behind.empty()) behind = behind.subspan(1);  // otherwise the "--" is the program's own
  std::vector<std::string> words = std::move(before);
  words.insert(words.end(), behind.begin(), behind.end());
  if (words.empty()) return usage_error("no program given: strata run -n N -- PROGRAM ARGS...");
  try {
    return Launcher(plan_launch(rank_count, std::move(words))).run();
  } catch (const Error& error) {
    fmt::print(stderr, "strata run: {}\n", error.what());
    return status_failed;
  }
}

constexpr const char* description = "Start N ranks of a program on this host: strata run -n N [--] PROGRAM [ARGS...]";
constexpr const char* footer =
    "A rank finds its place in STRATA_RANK, STRATA_WORLD_SIZE, STRATA_LOCAL_RANK and STRATA_JOB.\n"
    "OMP_NUM_THREADS is cores / N unless it is set. Only rank 0 reads standard input.\n"
    "SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all ranks.\n"
    "When a rank fails, the others have 1.5 s to say what they lost; then they are ended.\n"
    "\n"
    "Exit status: that of the first rank that failed, 128 + S if signal S killed it; 127 when\n"
    "PROGRAM is not found, 126 when it cannot be run, 125 when strata itself failed, 2 for a\n"
    "command line that is wrong.";

}  // namespace

std::function<int()> add_run_command(CLI::App& app, std::span<char* const> behind) {
  CLI::App* command = app.add_subcommand("run", description);
  command->footer(footer);
  command->prefix_command();
  auto rank_count = std::make_shared<int>(0);
  command->add_option("-n", *rank_count, "Number of ranks")
      ->required()
      ->type_name("N")
      ->check(CLI::Range(1, rank_count_max).description(fmt::format("from 1 to {}", rank_count_max)));
  return [command, rank_count, behind] { return run(*rank_count, command->remaining(), behind); };
}

}  // namespace strata::cli
