// `strata plan`: the plan of a model that is yet to be written.
#pragma once

#include <functional>

#include <strata/options.h>

namespace CLI {
class App;
}

namespace strata::cli {

// Adds the command to `app`; `options` are what --strata-* said, read before. The returned function runs the command
// and gives the exit status; to be called after parsing, if the command was given.
std::function<int()> add_plan_command(CLI::App& app, const Options& options);

}  // namespace strata::cli
