// The `strata` program: one subcommand a file, cmd_*.cpp.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

#include "engine/cli/cmd_run.h"

namespace {

int run(std::span<char*> words) {
  // Behind "--" everything belongs to the program that is to be run, whatever it looks like.
  const auto cut =
      std::find_if(words.begin(), words.end(), [](const char* word) { return std::string_view(word) == "--"; });
  const auto own_count = cut - words.begin();

  CLI::App app("strata: a memory engine for training");
  app.name("strata");
  app.set_version_flag("--version", "strata " STRATA_VERSION);
  app.require_subcommand(0, 1);
  const auto run_ranks = strata::cli::add_run_command(app, words.subspan(static_cast<std::size_t>(own_count)));
  try {
    app.parse(static_cast<int>(own_count), words.data());
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return strata::cli::status_usage;
  }
  if (app.got_subcommand("run")) return run_ranks();
  fmt::print(stderr, "{}", app.help());
  return strata::cli::status_usage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& error) {
    fmt::print(stderr, "strata: {}\n", error.what());
    return strata::cli::status_failed;
  }
}
