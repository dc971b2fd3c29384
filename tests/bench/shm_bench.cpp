// How close collectives over shared memory come to moving their bytes and nothing else, between processes. Out of
// place: reduce-scatter sums f32 from shared buffers of S bytes a rank into private shards, so each rank reads S and
// writes S / R; all-gather goes from private shards into one shared buffer, so S is read and S written in all. The
// ruler is a streaming copy of as many bytes by the same processes at once.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <strata/communicator.h>

#include "bench/bench_rows.h"
#include "offload/private_memory.h"
#include "sharding/exchange_arena.h"
#include "sharding/joined_ranks.h"
#include "sharding/stream_copy.h"
#include "support/process_fork.h"

namespace strata::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::array<std::size_t, 6> sizes_mib{1, 4, 16, 32, 64, 128};
constexpr std::size_t most_bytes = sizes_mib.back() * mib;
constexpr std::size_t timed_bytes = 64 * mib;  // small sizes are repeated, so that the clock has something to see

std::size_t of(int rank) { return static_cast<std::size_t>(rank); }

// One rank's buffers and its part in every measurement: all ranks do the same in the same order.
class RankAtWork {
 public:
  explicit RankAtWork(Communicator& communicator)
      : communicator_(communicator),
        shared_(communicator.allocate(most_bytes, Sharing::per_rank)),
        common_(communicator.allocate(most_bytes, Sharing::common)),
        source_(most_bytes),
        target_(most_bytes),
        norms_(most_bytes / 4 / 256) {
    const std::span<float> gradients{reinterpret_cast<float*>(shared_.bytes().data()), most_bytes / 4};
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = 1e-3f * static_cast<float>(i % 1009);
  }

  Paired reduce_scatter(std::size_t bytes) {
    const std::size_t shard_count = bytes / 4 / of(communicator_.size());
    return measure(bytes, (bytes + bytes / of(communicator_.size())) / 2, target_.bytes().data(), [&] {
      communicator_.reduce_scatter(shared_.bytes().data(), shard_count, Dtype::f32,
                                   {.accumulator = target_.as<float>().first(shard_count),
                                    .weight = 2,
                                    .leaf_norms = std::span(norms_).first((shard_count + 255) / 256)},
                                   {});
    });
  }

  Paired all_gather(std::size_t bytes) {
    const std::size_t shard_bytes = bytes / of(communicator_.size());
    std::byte* own = common_.bytes().data() + of(communicator_.rank()) * shard_bytes;
    return measure(bytes, shard_bytes, own, [&] {
      communicator_.all_gather(source_.bytes().data(), common_.bytes().data(), shard_bytes / 2, Dtype::bf16, {});
    });
  }

 private:
  // The ruler reads `copy_bytes` and writes as many.
  template <class Act>
  Paired measure(std::size_t bytes, std::size_t copy_bytes, std::byte* copy_target, const Act& act) {
    const std::size_t repeats = std::max<std::size_t>(timed_bytes / bytes, 1);
    const auto repeated = [&](const auto& once) {
      communicator_.barrier({});
      return timed_s([&] {
               for (std::size_t i = 0; i < repeats; ++i) once();
             }) /
             static_cast<double>(repeats);
    };
    return measure_timed_pairs([&] { return repeated(act); },
                               [&] {
                                 return repeated([&] {
                                   sharding::stream_copy(copy_target, source_.bytes().data(), copy_bytes);
                                   communicator_.barrier({});
                                 });
                               });
  }

  Communicator& communicator_;
  const ExchangeBlock shared_;
  const ExchangeBlock common_;
  const offload::PrivateMemory source_;
  const offload::PrivateMemory target_;
  std::vector<double> norms_;
};

template <class Tell>
void run_rank(Communicator& communicator, const Report& report, const Tell& tell) {
  RankAtWork work(communicator);
  for (const std::string operation : {"reduce_scatter", "all_gather"}) {
    for (const std::size_t size_mib : sizes_mib) {
      const std::string name = fmt::format("shm/{}/{}/{}MiB", operation, communicator.size(), size_mib);
      if (!report.wants(name)) continue;
      const std::size_t bytes = size_mib * mib;
      const bool reduces = operation == "reduce_scatter";
      const Paired paired = reduces ? work.reduce_scatter(bytes) : work.all_gather(bytes);
      const auto ranks = static_cast<double>(communicator.size());
      const double moved_gb = static_cast<double>(bytes) * (reduces ? ranks + 1 : 2) / 1e9;
      tell(Row{name, moved_gb / paired.value_s, "GB/s", moved_gb / paired.limit_s, paired.ratio},
           fmt::format("{:.3f} ms", paired.value_s * 1e3));
    }
  }
}

sharding::JoinedRanks joined_as(int rank, const detail::UniqueFd& segment, const std::vector<int>& pids) {
  sharding::JoinedRanks joined;
  joined.rank = rank;
  joined.size = static_cast<int>(pids.size());
  joined.segment = detail::UniqueFd(dup(segment.get()));
  joined.peer_pids = pids;
  for (std::size_t peer = 0; peer < pids.size(); ++peer) {
    // Of the ranks started after this one the process is not known here; rank 0, this program itself, watches all.
    const bool watched = peer != of(rank) && pids[peer] != 0;
    joined.peer_pidfds.emplace_back(watched ? static_cast<int>(syscall(SYS_pidfd_open, pids[peer], 0)) : -1);
  }
  return joined;
}

// Rank 0 is this process, the others are its children.
void run_world(int size, Report& report) {
  const detail::UniqueFd segment = sharding::make_segment_file();
  std::vector<int> pids(of(size), 0);
  pids[0] = getpid();
  std::vector<test::ForkedCall> others;
  for (int rank = 1; rank < size; ++rank) {
    others.emplace_back([&, rank]() -> std::string {
      const auto communicator = sharding::make_shm_communicator(joined_as(rank, segment, pids), {});
      run_rank(*communicator, report, [](const Row&, const std::string&) {});
      return "";
    });
    pids[of(rank)] = others.back().pid();
  }
  const auto communicator = sharding::make_shm_communicator(joined_as(0, segment, pids), {});
  run_rank(*communicator, report, [&](const Row& row, const std::string& remark) { report.add(row, remark); });
  for (test::ForkedCall& other : others) {
    if (const std::string said = other.result(); !said.empty()) throw std::runtime_error(said);
  }
}

int run(int argc, char** argv) {
  Report report(argc, argv);
  if (argc > 1) throw std::invalid_argument(fmt::format("unknown argument '{}'", argv[1]));
  std::fflush(stdout);  // or each child would print it again
  for (const int size : {2, 4}) run_world(size, report);
  report.finish();
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shm_bench: %s\n", error.what());
    return 2;
  }
}
