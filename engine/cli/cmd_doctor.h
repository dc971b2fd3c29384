// `strata doctor`: what this host offers the engine, and what it refuses.
#pragma once

#include <functional>

#include <strata/options.h>

namespace CLI {
class App;
}

namespace strata::cli {

// As add_plan_command().
std::function<int()> add_doctor_command(CLI::App& app, const Options& options);

}  // namespace strata::cli
