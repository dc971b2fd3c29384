#include "engine/cli/cmd_plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <strata/bytes.h>
#include <strata/error.h>
#include <strata/plan.h>

#include "engine/cli/exit_status.h"
#include "engine/cli/local_probe.h"
#include "engine/cli/model_sketch.h"
#include "engine/forecast/step_traffic.h"
#include "engine/planner.h"
#include "offload/nvme_files.h"

namespace strata::cli {
namespace {

constexpr std::uint32_t probed_ranks_most = 64;

struct PlanRequest {
  ModelSketch model;
  int world_size = 1;
  std::uint32_t local_rank_count = 0;                               // 0: all
  std::optional<std::uint64_t> free_memory_bytes, free_disk_bytes;  // of the host; else this one's
  std::uint32_t core_count = 0;                                     // the same
  bool probe = false;
  std::uint32_t micro_batch_count = 1;
};

Machine machine_for(const PlanRequest& request, const Options& options) {
  Machine machine = measure_machine(request.local_rank_count);
  const std::uint64_t ranks = machine.local_rank_count;
  if (request.core_count > 0) machine.core_count = request.core_count;
  if (request.free_memory_bytes) machine.device_free_bytes = *request.free_memory_bytes / ranks;
  machine.host_free_bytes = machine.device_free_bytes;
  if (request.free_disk_bytes) {
    machine.nvme_free_bytes = *request.free_disk_bytes / ranks;
  } else if (!options.nvme_dirs.empty()) {
    machine.nvme_free_bytes = offload::nvme_free_bytes(options.nvme_dirs) / ranks;
  }
  machine.shared_exchange = request.local_rank_count == static_cast<std::uint32_t>(request.world_size);
  return machine;
}

void print_host_totals(const Plan& plan, const Machine& machine) {
  if (machine.local_rank_count < 2) return;
  std::string text;
  for (const auto& [tier, name] :
       {std::pair(TierKind::device, "device"), {TierKind::host, "host"}, {TierKind::nvme, "nvme"}}) {
    const std::uint64_t bytes = plan.total_bytes(tier) * machine.local_rank_count;
    if (bytes > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, format_bytes(bytes));
  }
  fmt::print("the {} ranks of a host together: {}\n", machine.local_rank_count, text);
}

void print_forecast(const PlanRequest& request, const Options& options, const std::vector<Unit>& units,
                    const engine::PlanAndMemory& made) {
  const MachineSpeed speed = probe_this_host(static_cast<int>(request.local_rank_count), options);
  std::vector<sharding::FlatLayout> layouts;
  for (const Unit& unit : units) layouts.emplace_back(unit, request.world_size);
  const engine::StateShape state{layouts, request.model.moment_count, made.plan.chunk_count};
  const engine::TrafficShape shape{request.world_size, made.plan.prefetch, made.plan.slot_count,
                                   request.micro_batch_count};
  const engine::StepTraffic traffic = engine::step_traffic(units, state, made.memory.placement, shape, options);
  const std::string arithmetic =
      request.model.arithmetic_s > 0
          ? fmt::format("{:.3g} s of it arithmetic", request.model.arithmetic_s * request.micro_batch_count)
          : std::string("without the model's arithmetic, which --arithmetic tells");
  fmt::print("a step on this host: about {:.3g} s, {}\n", engine::predict_step_s(traffic, speed), arithmetic);
}

int show_plan(const PlanRequest& asked, const Options& options) {
  PlanRequest request = asked;
  if (request.local_rank_count == 0) request.local_rank_count = static_cast<std::uint32_t>(request.world_size);
  try {
    if (request.world_size % static_cast<int>(request.local_rank_count) != 0) {
      throw Error(ErrorCode::invalid_argument, fmt::format("--world {} is no multiple of --local-ranks {}",
                                                           request.world_size, request.local_rank_count));
    }
    if (request.probe && request.local_rank_count > probed_ranks_most) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--probe measures at most {} ranks of this host at once, not {}: give --local-ranks",
                              probed_ranks_most, request.local_rank_count));
    }
    const std::vector<Unit> units = sketched_units(request.model);
    const Machine machine = machine_for(request, options);
    const engine::PlanAndMemory made = engine::make_plan_and_memory(
        units, *sketched_optimizer(request.model.moment_count), request.world_size, options, machine);
    fmt::print("{} units over {} ranks at stage {}; a host has {} ranks, {} cores and {} of free memory\n\n{}",
               units.size(), request.world_size, options.stage, machine.local_rank_count, machine.core_count,
               format_bytes(machine.device_free_bytes * machine.local_rank_count), made.plan.table());
    print_host_totals(made.plan, machine);
    if (request.probe) print_forecast(request, options, units, made);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "strata plan: {}\n", error.what());
    if (error.code() == ErrorCode::out_of_budget) return status_no;
    return error.code() == ErrorCode::invalid_argument ? status_usage : status_failed;
  }
}

// Sizes and counts with their units, refused with what would be right.
void add_count(CLI::App& command, const std::string& flag, std::uint64_t& target, const std::string& meaning) {
  auto* option = command.add_option_function<std::string>(
      flag, [&target](const std::string& text) { target = *read_count(text); }, meaning);
  option->type_name("N")->check([](const std::string& text) {
    return read_count(text) ? std::string()
                            : fmt::format("'{}' is no count: write it as 124000000, 350M, 7B or 1.5T", text);
  });
}

void add_size(CLI::App& command, const std::string& flag, std::optional<std::uint64_t>& target,
              const std::string& meaning) {
  auto* option = command.add_option_function<std::string>(
      flag, [&target](const std::string& text) { target = parse_bytes(text); }, meaning);
  option->type_name("SIZE")->check([](const std::string& text) {
    try {
      parse_bytes(text);
      return std::string();
    } catch (const Error& error) {
      return error.text();
    }
  });
}

constexpr const char* description =
    "Where every byte of a model yet to be written would be: strata plan --params 7B --units 32 --world 8";
constexpr const char* footer =
    "All --strata-* options count as they would in the program (--strata-help lists them). The machine is this one,\n"
    "except for what is given. Nothing is allocated; --probe alone moves bytes, for a second.\n"
    "\n"
    "Exit status: 0 when the plan fits, 1 when a budget is too small (the message says which, and what it needs),\n"
    "2 for arguments that are wrong.";

}  // namespace

std::function<int()> add_plan_command(CLI::App& app, const Options& options) {
  CLI::App* command = app.add_subcommand("plan", description);
  command->footer(footer);
  auto request = std::make_shared<PlanRequest>();
  request->model.unit_count = 32;
  add_count(*command, "--params", request->model.parameter_count, "parameters of the model, as 7B");
  command->get_option("--params")->required();
  command->add_option("--units", request->model.unit_count, "units of equal size, as blocks are")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_count(*command, "--embedding", request->model.embedding_count, "of the parameters: an embedding, one more unit");
  command->add_option("--world", request->world_size, "ranks")->check(CLI::Range(1, 65536))->capture_default_str();
  command->add_option("--local-ranks", request->local_rank_count, "ranks of a host; without it all")
      ->check(CLI::Range(1, 65536));
  command->add_option("--moments", request->model.moment_count, "of the optimizer: AdamW has 2, SGD and Lion have 1")
      ->check(CLI::Range(0, static_cast<int>(moments_max)))
      ->capture_default_str();
  add_size(*command, "--free-memory", request->free_memory_bytes, "free memory of a host");
  add_size(*command, "--free-disk", request->free_disk_bytes, "free space in the directories of --strata-nvme-dir");
  command->add_option("--cores", request->core_count, "cores of a host")->check(CLI::Range(1, 65536));
  CLI::Option* const probe =
      command->add_flag("--probe", request->probe, "measure this host, and say how long a step would take");
  command
      ->add_option("--arithmetic", request->model.arithmetic_s,
                   "seconds that one micro-batch takes a rank, forward and backward")
      ->check(CLI::Range(0.0, 1e6))
      ->needs(probe);
  command->add_option("--micro-batches", request->micro_batch_count, "of a step")
      ->needs(probe)
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  return [request, &options] { return show_plan(*request, options); };
}

}  // namespace strata::cli
