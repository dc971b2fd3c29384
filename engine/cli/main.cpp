// The `strata` program: one subcommand a file, cmd_*.cpp.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <span>
#include <string_view>

#include <strata/error.h>
#include <strata/options.h>

#include "engine/cli/cmd_doctor.h"
#include "engine/cli/cmd_plan.h"
#include "engine/cli/cmd_run.h"
#include "engine/cli/exit_status.h"

namespace {

// Of `strata run` they are the program's that is to be run.
bool takes_engine_options(std::span<char*> words) {
  if (words.size() < 2) return false;
  const std::string_view command = words[1];
  return command == "plan" || command == "doctor";
}

int run(std::span<char*> words, const strata::Options& options) {
  // Behind "--" everything belongs to the program that is to be run, whatever it looks like.
  const auto cut =
      std::find_if(words.begin(), words.end(), [](const char* word) { return std::string_view(word) == "--"; });
  const auto own_count = cut - words.begin();

  CLI::App app("strata: a memory engine for training");
  app.name("strata");
  app.set_version_flag("--version", "strata " STRATA_VERSION);
  app.require_subcommand(0, 1);
  const auto run_ranks = strata::cli::add_run_command(app, words.subspan(static_cast<std::size_t>(own_count)));
  const auto show_plan = strata::cli::add_plan_command(app, options);
  const auto examine = strata::cli::add_doctor_command(app, options);
  try {
    app.parse(static_cast<int>(own_count), words.data());
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    app.exit(error);
    return strata::cli::status_usage;
  }
  if (app.got_subcommand("run")) return run_ranks();
  if (app.got_subcommand("plan")) return show_plan();
  if (app.got_subcommand("doctor")) return examine();
  fmt::print(stderr, "{}", app.help());
  return strata::cli::status_usage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    strata::Options options;
    if (takes_engine_options({argv, static_cast<std::size_t>(argc)})) options = strata::parse_options(argc, argv);
    if (options.help) {
      fmt::print("{}", strata::options_help());
      return 0;
    }
    return run({argv, static_cast<std::size_t>(argc)}, options);
  } catch (const strata::Error& error) {
    fmt::print(stderr, "strata: {}\n", error.what());
    return error.code() == strata::ErrorCode::invalid_argument ? strata::cli::status_usage : strata::cli::status_failed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "strata: {}\n", error.what());
    return strata::cli::status_failed;
  }
}
