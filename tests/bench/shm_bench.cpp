// How close collectives over shared memory come to moving their bytes and nothing else, between processes. Out of
// place: reduce-scatter sums f32 from shared buffers of S bytes a rank into private shards, so each rank reads S and
// writes S / R; all-gather goes from private shards into one shared buffer, so S is read and S written in all. The
// ruler is a streaming copy of as many bytes, from and to the same kinds of memory, by the same processes at once: what
// peers must reach lies in shared memory, on small pages, which alone costs a tenth against private memory.
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
#include "sharding/transport/futex.h"
#include "support/process_fork.h"

namespace strata::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::array<std::size_t, 6> sizes_mib{1, 4, 16, 32, 64, 128};
constexpr std::size_t buffer_bytes = 256 * mib;
constexpr std::size_t timed_bytes = 64 * mib;  // small sizes are repeated, so that the clock has something to see

std::size_t of(int rank) { return static_cast<std::size_t>(rank); }

// One rank's buffers and its part in every measurement: all ranks do the same in the same order.
class RankAtWork {
 public:
  explicit RankAtWork(Communicator& communicator)
      : communicator_(communicator),
        ranks_(of(communicator.size())),
        shared_(communicator.allocate(buffer_bytes, Sharing::per_rank)),
        common_(communicator.allocate(buffer_bytes, Sharing::common)),
        times_(communicator.allocate(2 * sizeof(std::int64_t) * ranks_, Sharing::common)),
        source_(buffer_bytes),
        target_(buffer_bytes),
        norms_(buffer_bytes / 4 / norm_leaf_count) {
    const std::span<float> gradients{reinterpret_cast<float*>(shared_.bytes().data()), buffer_bytes / 4};
    for (std::size_t i = 0; i < gradients.size(); ++i) gradients[i] = 1e-3f * static_cast<float>(i % 1009);
  }

  Paired reduce_scatter(std::size_t bytes) {
    const std::size_t shard_count = bytes / 4 / ranks_;
    const auto act = [this, shard_count](std::size_t window) {
      communicator_.reduce_scatter(
          shared_.bytes().data() + window, shard_count, Dtype::f32,
          {.accumulator = {reinterpret_cast<float*>(target_.bytes().data() + window), shard_count},
           .weight = 2,
           .leaf_norms = std::span(norms_).first(shard_count / norm_leaf_count)},
          {});
    };
    return measure(bytes, act, [this, bytes](std::size_t window) {
      copy(target_.bytes().data() + window, shared_.bytes().data() + window, (bytes + bytes / ranks_) / 2);
    });
  }

  Paired all_gather(std::size_t bytes) {
    const std::size_t shard_bytes = bytes / ranks_;
    const auto act = [this, shard_bytes](std::size_t window) {
      communicator_.all_gather(source_.bytes().data() + window, common_.bytes().data() + window, shard_bytes / 2,
                               Dtype::bf16, {});
    };
    return measure(bytes, act, [this, shard_bytes](std::size_t window) {
      copy(common_.bytes().data() + window + of(communicator_.rank()) * shard_bytes, source_.bytes().data() + window,
           shard_bytes);
    });
  }

 private:
  void copy(std::byte* target, const std::byte* source, std::size_t bytes) {
    sharding::stream_copy(target, source, bytes);
    communicator_.barrier({});
  }

  // With more ranks than cores, ranks begin and end at different times.
  double from_first_to_last_s(std::int64_t begin_ns, std::int64_t end_ns) {
    const std::array<std::int64_t, 2> own{-begin_ns, end_ns};
    communicator_.all_gather(own.data(), times_.bytes().data(), own.size(), Dtype::u64, {});
    std::array<std::int64_t, 2> most = own;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      const auto* of_rank = reinterpret_cast<const std::int64_t*>(times_.bytes().data()) + 2 * rank;
      for (const std::size_t i : {0, 1}) most[i] = std::max(most[i], of_rank[i]);
    }
    communicator_.barrier({});
    return 1e-9 * static_cast<double>(most[0] + most[1]);
  }

  // Windows are given as offsets in the buffers.
  template <class Act, class Ruler>
  Paired measure(std::size_t bytes, const Act& act, const Ruler& ruler) {
    const std::size_t repeats = std::max<std::size_t>(timed_bytes / bytes, 1);
    const auto timed_rounds = [&](const auto& once, std::size_t& window) {
      communicator_.barrier({});
      const std::int64_t begin_ns = sharding::monotonic_ns();
      for (std::size_t i = 0; i < repeats; ++i) {
        once(window);
        window = (window + bytes) % buffer_bytes;
      }
      return from_first_to_last_s(begin_ns, sharding::monotonic_ns()) / static_cast<double>(repeats);
    };
    std::size_t act_window = 0;
    std::size_t ruler_window = 0;
    return measure_timed_pairs([&] { return timed_rounds(act, act_window); },
                               [&] { return timed_rounds(ruler, ruler_window); });
  }

  Communicator& communicator_;
  const std::size_t ranks_;
  const ExchangeBlock shared_;
  const ExchangeBlock common_;
  const ExchangeBlock times_;
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
