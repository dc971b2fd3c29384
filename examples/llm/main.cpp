// The `llm` program: trains a Llama-family decoder with strata, or lets one speak.
#include <fmt/format.h>
#include <strata/error.h>
#include <strata/options.h>
#include <strata/rendezvous.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "generate.h"
#include "train.h"
#include "train_options.h"

namespace {

// One line, with the rank where there are several.
int report(const std::string& text, const strata::Communicator* communicator) {
  if (communicator != nullptr && communicator->size() > 1) {
    fmt::print(stderr, "llm: rank {}: {}\n", communicator->rank(), text);
  } else {
    fmt::print(stderr, "llm: {}\n", text);
  }
  return 1;
}

int run_train(const llm::TrainOptions& options, const strata::Options& engine_options) {
  std::unique_ptr<strata::Communicator> world;
  try {
    strata::JoinOptions join;
    join.deadlines = {engine_options.timeout_s, engine_options.call_timeout_s};
    world = strata::join_from_env(join);
    llm::train(options, engine_options, *world);
    return 0;
  } catch (const std::exception& error) {
    // Peers that wait for this rank learn why it does not come.
    if (world != nullptr) world->abort(error.what());
    return report(error.what(), world.get());
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const strata::Options engine_options = strata::parse_options(argc, argv);
    if (engine_options.help) {
      fmt::print("{}\n", strata::options_help());
      return 0;
    }
    CLI::App app("Trains a Llama-family decoder with strata, or lets one speak. strata's own options: --strata-help.");
    app.require_subcommand(1);
    llm::TrainOptions train_options;
    llm::GenerateOptions generate_options;
    CLI::App* train = app.add_subcommand("train", "Trains on a text");
    llm::add_train_flags(*train, train_options);
    CLI::App* generate = app.add_subcommand("generate", "Continues a text");
    llm::add_generate_flags(*generate, generate_options);
    CLI11_PARSE(app, argc, argv);
    if (train->parsed()) return run_train(train_options, engine_options);
    llm::generate(generate_options);
    return 0;
  } catch (const std::exception& error) {
    return report(error.what(), nullptr);
  }
}
