// Everything that is tuned without touching the program: one name for flag, environment and JSON file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <strata/device.h>
#include <strata/dtype.h>

namespace strata {

enum class ReducePolicy : std::uint8_t { micro_batch, step };
enum class CommunicatorKind : std::uint8_t { automatic, shm };
enum class Home : std::uint8_t { automatic, device, host, nvme };
enum class IoBackend : std::uint8_t { automatic, uring, threads };
enum class Progress : std::uint8_t { automatic, on, off };

struct Options {
  int stage = 3;  // what is sharded: 0 nothing, 1 optimizer state, 2 + gradients, 3 + parameters
  Device device;
  Dtype dtype = Dtype::bf16;        // published parameters: f32, bf16, f16
  Dtype grad_dtype = Dtype::f32;    // gradient leases: f32, bf16, f16
  Dtype reduce_dtype = Dtype::f32;  // terms of the sum over ranks: f32, bf16, f16
  ReducePolicy reduce = ReducePolicy::micro_batch;
  std::optional<std::uint64_t>
      device_memory_bytes;  // hard budget of this rank; default 0.9 of what is free, shared fairly
  std::optional<std::uint64_t> host_memory_bytes;  // the same for host memory; on a CPU both share what is free
  std::optional<std::uint64_t> nvme_memory_bytes;  // disk space in all of nvme_dirs; default 0.9 of what is free
  Home params = Home::automatic;                   // published shards; below the device only at stage 3
  Home optimizer = Home::automatic;                // master and moments
  Home gradients = Home::automatic;    // accumulators; below the device only where they are shards (stages 1-3 with
                                       // policy micro_batch)
  Home activations = Home::automatic;  // what stash() keeps
  std::uint64_t activation_memory_bytes = 0;  // room for stash(), in the home of activations
  bool split_master = true;                   // bf16: masters on nvme without the half that the published shard holds
  std::vector<std::string> nvme_dirs;         // several are striped
  IoBackend io = IoBackend::automatic;
  std::uint64_t io_inflight_bytes = std::uint64_t{8} << 20;  // under way at once
  std::uint64_t io_block_bytes = std::uint64_t{2} << 20;     // of one request to the kernel
  std::optional<std::uint32_t> prefetch;  // units gathered ahead; default: from the budget, at most 2
  std::uint32_t leases = 2;               // units the caller holds at once
  std::optional<std::uint32_t> chunk;     // elements, a power of two from 2,048 to 1 Mi; default: from the budget
  std::optional<std::uint32_t> threads;   // update team; default: cores / local ranks
  CommunicatorKind comm = CommunicatorKind::automatic;
  double timeout_s = 30;
  double call_timeout_s = 600;
  Progress progress = Progress::automatic;
  bool plan_only = false;  // --strata-plan: print the plan and end
  bool help = false;       // --strata-help: print options_help() and end
};

// Takes what is --strata-* out of argc and argv, and reads STRATA_OPTIONS ("--strata-stage=2 prefetch=1": the flags,
// with or without "--strata-", separated by white space) and the JSON object in the file of --strata-config ({"stage":
// 2, "device-memory": "512MiB"}). A flag wins over the environment, the environment over the file. "--strata-x=v" and
// "--strata-x v" are the same, and "--" ends the options. Within one of the three sources an option may be repeated
// only with the same value. Throws Error{invalid_argument} that names the option, the value, where it was given, what
// is legal, and for a name that does not exist the nearest one; nothing is ignored. After a throw argc and argv are as
// before. Throws Error{unsupported} for a legal value that this build has no code for.
Options parse_options(int& argc, char** argv);

// All options with meaning, legal values and default, for --strata-help.
std::string options_help();

// Throws Error{invalid_argument} when a value, or a combination of values, is illegal. Called by the engine as well.
void validate(const Options& options);

}  // namespace strata
