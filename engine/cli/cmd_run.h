// `strata run -n N [--] PROGRAM ARGS...`: ranks on this host.
#pragma once

#include <functional>
#include <span>

namespace CLI {
class App;
}

namespace strata::cli {

// Adds the command to `app`, which is to parse the command line up to the first "--"; `behind` is what follows from
// there on, the "--" included. The returned function runs the command and gives the exit status; to be called after
// parsing, if the command was given.
std::function<int()> add_run_command(CLI::App& app, std::span<char* const> behind);

}  // namespace strata::cli
