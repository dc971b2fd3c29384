// One rank without peers: the same arithmetic as between ranks, on private memory.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include <strata/detail/host_share.h>
#include <strata/error.h>
#include <strata/rendezvous.h>

#include "sharding/collective_arguments.h"
#include "sharding/exchange_arena.h"
#include "sharding/reduce_kernel.h"

namespace strata {

namespace sharding {

namespace {

class SoloCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view kind() const override { return "solo"; }

  ExchangeBlock allocate(std::size_t bytes, Sharing) override {
    begin_call();
    const std::uint64_t available_bytes = detail::free_memory_bytes();
    const std::size_t mapped_bytes = (std::max<std::size_t>(bytes, 1) + page_bytes - 1) / page_bytes * page_bytes;
    void* address = MAP_FAILED;
    if (bytes <= available_bytes) {
      constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
      address = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    }
    if (address == MAP_FAILED) {
      throw Error(ErrorCode::out_of_budget,
                  fmt::format("exchange memory: rank 0 could not take {} bytes; {} are free", bytes, available_bytes));
    }
    std::shared_ptr<void> owner(address, [mapped_bytes](void* at) { munmap(at, mapped_bytes); });
    return ExchangeBlock({static_cast<std::byte*>(address), bytes}, std::move(owner));
  }

  void release(ExchangeBlock) override { begin_call(); }  // unmaps it

  void all_gather(const void* source, void* target, std::size_t shard_count, Dtype dtype, const CallTag&) override {
    check_gather(shard_count, dtype, 1);
    begin_call();
    if (source != target && shard_count != 0) std::memcpy(target, source, shard_count * bytes_per_element(dtype));
  }

  ReduceOutcome reduce_scatter(const void* source, std::size_t shard_count, Dtype dtype, const ReduceTarget& target,
                               const CallTag&) override {
    check_reduce(shard_count, dtype, target, 1);
    begin_call();
    const ReduceSource own{source, target.weight, 0};
    return reduce_slices({.sources = std::span(&own, target.weight == 0 ? 0 : 1),
                          .dtype = dtype,
                          .reduce_dtype = target.reduce_dtype,
                          .count = shard_count,
                          .accumulator = target.accumulator.data(),
                          .mode = target.mode,
                          .leaf_norms = target.leaf_norms.empty() ? nullptr : target.leaf_norms.data()});
  }

  void all_reduce(std::span<double>, const CallTag&) override { begin_call(); }
  void all_reduce(std::span<std::uint64_t>, const CallTag&) override { begin_call(); }
  void barrier(const CallTag&) override { begin_call(); }

  void abort(std::string_view cause) noexcept override {
    const std::lock_guard lock(mutex_);
    if (!cause_) cause_.emplace(ErrorCode::peer_lost, fmt::format("rank 0: {}", cause));
  }

  void beat() noexcept override {}
  void set_deadlines(const Deadlines&) override {}  // nobody to wait for
  CommunicatorCounters counters() const override { return {.call_count = call_count_.load(std::memory_order_relaxed)}; }

 private:
  void begin_call() {
    const std::lock_guard lock(mutex_);
    if (cause_) throw Error(*cause_);
    call_count_.fetch_add(1, std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> call_count_{0};
  std::mutex mutex_;
  std::optional<Error> cause_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace

}  // namespace sharding

std::unique_ptr<Communicator> solo_world() { return std::make_unique<sharding::SoloCommunicator>(); }

}  // namespace strata
