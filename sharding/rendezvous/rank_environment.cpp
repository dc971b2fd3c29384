#include "sharding/rendezvous/rank_environment.h"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include <strata/error.h>

namespace strata::sharding {
namespace {

// The names under which one launcher says the same five things; an empty name: it does not say it.
struct Vocabulary {
  std::string_view launcher;
  std::string_view rank;
  std::string_view size;
  std::string_view local_rank;
  std::string_view local_size;
};

constexpr Vocabulary own = {"strata", "STRATA_RANK", "STRATA_WORLD_SIZE", "STRATA_LOCAL_RANK", ""};
constexpr Vocabulary torchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Vocabulary open_mpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Vocabulary slurm = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""};

// Slurm numbers the batch script and an interactive allocation as steps of their own from here on; neither has ranks.
constexpr unsigned long long slurm_pseudo_step_min = 0xfffffff0;

[[noreturn]] void refuse(const std::string& text) { throw Error(ErrorCode::invalid_argument, text); }

class Reader {
 public:
  explicit Reader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  std::optional<std::string> text(std::string_view name) const {
    std::optional<std::string> value = name.empty() ? std::nullopt : lookup_(name);
    return value && value->empty() ? std::nullopt : value;
  }

  bool has(std::string_view name) const { return text(name).has_value(); }

  // An integer in [low, high], or nothing when unset.
  std::optional<int> number(std::string_view name, int low, int high) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    int parsed = 0;
    const char* end = value->data() + value->size();
    const auto [stop, error] = std::from_chars(value->data(), end, parsed);
    if (error != std::errc() || stop != end || parsed < low || parsed > high) {
      refuse(fmt::format("{}='{}': an integer from {} to {} is expected", name, *value, low, high));
    }
    return parsed;
  }

  // REQUIRES: `given` is set.
  std::string text_beside(std::string_view name, std::string_view given, std::string_view advice) const {
    std::optional<std::string> value = text(name);
    if (!value) refuse(fmt::format("{}='{}' is set, but {} is not; {}", given, *text(given), name, advice));
    return *std::move(value);
  }

  // REQUIRES: `given` is set.
  int number_beside(std::string_view name, std::string_view given, int low, int high) const {
    text_beside(name, given, "a launcher sets both: set it, or unset both for a single rank");
    return *number(name, low, high);
  }

 private:
  const EnvironmentLookup& lookup_;
};

bool speaks(const Reader& reader, const Vocabulary& words) { return reader.has(words.rank) || reader.has(words.size); }

RankEnvironment read_ranks(const Reader& reader, const Vocabulary& words) {
  RankEnvironment found;
  found.launcher = words.launcher;
  const bool size_given = reader.has(words.size);
  found.size = size_given ? *reader.number(words.size, 1, world_size_max)
                          : reader.number_beside(words.size, words.rank, 1, world_size_max);
  found.rank = found.size == 1 ? reader.number(words.rank, 0, world_size_max - 1).value_or(0)
                               : reader.number_beside(words.rank, words.size, 0, world_size_max - 1);
  if (found.rank >= found.size) {
    refuse(fmt::format("{}={} is no rank of {}={}: ranks count from 0 to {}", words.rank, found.rank, words.size,
                       found.size, found.size - 1));
  }
  found.local_size = reader.number(words.local_size, 1, world_size_max).value_or(found.size);
  if (found.local_size > found.size) {
    refuse(fmt::format("{}={} is more than {}={}", words.local_size, found.local_size, words.size, found.size));
  }
  if (found.local_size < found.size) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}={} of {}={}: the ranks are on several hosts, but they talk through shared memory; start "
                    "all of them on one host, or one job per host",
                    words.local_size, found.local_size, words.size, found.size));
  }
  found.local_rank = reader.number(words.local_rank, 0, world_size_max - 1).value_or(found.rank);
  if (found.local_rank != found.rank) {
    refuse(fmt::format("{}={} contradicts {}={}: on a single host both are equal", words.local_rank, found.local_rank,
                       words.rank, found.rank));
  }
  return found;
}

RankEnvironment read_own(const Reader& reader) {
  RankEnvironment found = read_ranks(reader, own);
  if (found.size > 1) {
    found.job = reader.text_beside("STRATA_JOB", own.rank,
                                   "set it to one word of your choice, the same on all ranks of the job");
  }
  return found;
}

RankEnvironment read_torchrun(const Reader& reader) {
  RankEnvironment found = read_ranks(reader, torchrun);
  const std::optional<std::string> run = reader.text("TORCHELASTIC_RUN_ID");
  found.port = reader.number("MASTER_PORT", 0, 65535).value_or(0);
  if (found.size > 1 && !run && found.port == 0) {
    refuse(fmt::format(
        "RANK={} and WORLD_SIZE={} are set, but neither TORCHELASTIC_RUN_ID nor MASTER_PORT, which tell this "
        "job from others; set MASTER_PORT to the same free number on all ranks",
        found.rank, found.size));
  }
  // A restarted generation must not meet the processes of the one before.
  found.job =
      fmt::format("torchrun.{}.{}", run.value_or("none"), reader.text("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  return found;
}

RankEnvironment read_open_mpi(const Reader& reader) {
  RankEnvironment found = read_ranks(reader, open_mpi);
  if (found.size > 1)
    found.job = "mpi." + reader.text_beside("PMIX_NAMESPACE", open_mpi.rank, "start the ranks with mpirun");
  return found;
}

// A step of srun has SLURM_STEP_ID. A batch script or salloc's shell has not, although it may see the allocation's task
// count: it is one process.
RankEnvironment read_slurm(const Reader& reader) {
  RankEnvironment alone;
  alone.launcher = slurm.launcher;
  const std::optional<std::string> step = reader.text("SLURM_STEP_ID");
  if (!step || !reader.has(slurm.rank)) {
    if (reader.number(slurm.rank, 0, world_size_max - 1).value_or(0) > 0) {
      reader.text_beside("SLURM_STEP_ID", slurm.rank, "start the ranks with srun");
    }
    return alone;
  }
  unsigned long long step_number = 0;
  const auto parsed = std::from_chars(step->data(), step->data() + step->size(), step_number);
  if (parsed.ec == std::errc() && step_number >= slurm_pseudo_step_min) return alone;

  Vocabulary words = slurm;
  if (reader.has("SLURM_STEP_NUM_TASKS")) words.size = "SLURM_STEP_NUM_TASKS";
  const std::string_view hosts = reader.has("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
  if (const int count = reader.number(hosts, 1, 1 << 20).value_or(1); count > 1) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}={}: the ranks are on several hosts, but they talk through shared memory; ask for one with "
                    "srun --nodes=1",
                    hosts, count));
  }
  RankEnvironment found = read_ranks(reader, words);
  if (found.size > 1) {
    found.job =
        fmt::format("slurm.{}.{}", reader.text_beside("SLURM_JOB_ID", words.rank, "start the ranks with srun"), *step);
  }
  return found;
}

}  // namespace

RankEnvironment read_rank_environment(const EnvironmentLookup& lookup) {
  const Reader reader(lookup);
  if (speaks(reader, own)) return read_own(reader);
  if (speaks(reader, torchrun)) return read_torchrun(reader);
  if (speaks(reader, open_mpi)) return read_open_mpi(reader);
  if (speaks(reader, slurm)) return read_slurm(reader);
  return {};
}

std::optional<std::string> process_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

}  // namespace strata::sharding
