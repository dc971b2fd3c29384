// Where each byte will be, before any is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <strata/machine_speed.h>
#include <strata/optimizer.h>
#include <strata/options.h>
#include <strata/tier.h>
#include <strata/unit.h>

namespace strata {

enum class Ownership : std::uint8_t {
  private_memory,  // this rank's alone
  shared_memory,   // pages of the exchange arena that this rank owns
};

struct PlanRow {
  std::string what;
  TierKind tier = TierKind::device;
  Ownership ownership = Ownership::private_memory;
  std::uint64_t bytes = 0;  // of this rank
};

// What the plan must know of the machine and the ranks; the engine fills it in, a test writes what it likes.
struct Machine {
  std::uint64_t device_free_bytes = 0;  // for this rank
  std::uint64_t host_free_bytes = 0;    // for this rank
  std::uint64_t nvme_free_bytes = 0;    // for this rank, in all directories of the options together
  bool device_is_host = true;           // device and host are one memory: a CPU
  MachineSpeed speed = {};              // for the prediction
  std::uint32_t core_count = 1;
  std::uint32_t local_rank_count = 1;  // ranks that share the cores and, with shared_exchange, common memory
  bool shared_exchange = true;         // Sharing::common is one block for all ranks
};

struct Plan {
  std::vector<PlanRow> rows;  // of rank 0; every rank has the same sizes
  std::uint64_t device_budget_bytes = 0;
  std::uint64_t host_budget_bytes = 0;
  std::uint64_t nvme_budget_bytes = 0;
  std::uint64_t least_device_bytes = 0;  // the smallest legal budget for these options
  std::uint32_t prefetch = 0;            // slots beyond the leases: what the budget allows of the wish
  std::uint32_t chunk_count = 0;         // elements of a chunk
  std::uint32_t slot_count = 0;          // chunks under way between nvme and memory at once
  std::uint32_t threads = 1;
  double predicted_step_s = 0;         // of a step of one micro-batch; 0 when no unit says how long it computes
  double predicted_micro_batch_s = 0;  // of each further micro-batch
  std::uint64_t parameter_count = 0;
  std::uint64_t trainable_count = 0;

  std::uint64_t total_bytes(TierKind tier) const;
  std::string table() const;  // for people: rows, totals per tier, budget
};

// Pure: the same arguments give the same plan. The engine allocates exactly what it says.
// Throws invalid_argument for bad units or options, out_of_budget with the table and the least legal budget, naming the
// option to raise.
Plan make_plan(std::span<const Unit> units, const Optimizer& optimizer, int world_size, const Options& options,
               const Machine& machine);

// This machine as seen by one of `local_rank_count` ranks: free memory (a control group's limit heeded) and cores.
Machine measure_machine(std::uint32_t local_rank_count);

}  // namespace strata
