// Collectives by direct load and store: every rank sees the memory of all ranks of its host.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include <strata/communicator.h>

#include "sharding/exchange_arena.h"
#include "sharding/reduce_kernel.h"
#include "sharding/transport/death_watch.h"
#include "sharding/transport/shm_channel.h"

namespace strata::sharding {

struct PeerProcesses {
  std::vector<detail::UniqueFd> pidfds;  // by rank; empty where the peer is a thread of this process
  std::vector<int> pids;
  detail::UniqueFd door;  // kept open for as long as the communicator lives
};

class HostCommunicator : public Communicator {
 public:
  HostCommunicator(std::shared_ptr<ExchangeSegment> segment, int rank, int size, const Deadlines& deadlines,
                   PeerProcesses peers = {});

  int rank() const override { return channel_.rank(); }
  int size() const override { return channel_.size(); }
  std::string_view kind() const override { return "shm"; }

  ExchangeBlock allocate(std::size_t bytes, Sharing sharing) override;
  void release(ExchangeBlock block) override;
  void all_gather(const void* source, void* target, std::size_t shard_count, Dtype dtype, const CallTag& tag) override;
  ReduceOutcome reduce_scatter(const void* source, std::size_t shard_count, Dtype dtype, const ReduceTarget& target,
                               const CallTag& tag) override;
  void all_reduce(std::span<double> values, const CallTag& tag) override;
  void all_reduce(std::span<std::uint64_t> values, const CallTag& tag) override;
  void barrier(const CallTag& tag) override;
  void abort(std::string_view cause) noexcept override;
  void beat() noexcept override { channel_.beat(); }
  void set_deadlines(const Deadlines& deadlines) override { channel_.set_deadlines(deadlines); }
  CommunicatorCounters counters() const override;

 private:
  ExchangePlace place_of(const void* address, std::size_t bytes, std::string_view what) const;
  template <typename T>
  void all_reduce_values(std::span<T> values, Dtype dtype, const CallTag& tag);
  template <typename T>
  void sum_scratch(std::span<T> piece) const;
  void count_call(std::size_t moved_bytes);

  ShmChannel channel_;
  ExchangeArena arena_;
  const std::vector<int> peer_pids_;
  const detail::UniqueFd door_;
  std::vector<ReduceSource> sources_;  // room for one per rank
  std::atomic<std::uint64_t> call_count_{0};
  std::atomic<std::uint64_t> moved_bytes_{0};
  DeathWatch death_watch_;  // last: it calls into the channel until it is gone
};

}  // namespace strata::sharding
