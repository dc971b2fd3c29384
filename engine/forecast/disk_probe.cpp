#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <vector>

#include <strata/error.h>
#include "engine/forecast/probes.h"
#include "engine/forecast/repeated_rate.h"
#include "offload/checksum.h"
#include "offload/nvme_tier.h"
#include "offload/private_memory.h"

namespace strata::engine {
namespace {

constexpr CallTag probe_tag{no_unit, 0, "probe"};
constexpr std::uint64_t file_bytes_most = std::uint64_t{128} << 20;
constexpr std::uint64_t request_bytes = std::uint64_t{4} << 20;
constexpr std::uint64_t file_bytes_least = 2 * request_bytes;
constexpr std::size_t buffer_count = 4;
constexpr double fill_most_s = 0.15;
constexpr double moment_s = 0.03;
constexpr std::size_t round_count = 3;  // a disk that others use too has bad moments

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Of all threads of this process: the disk's among them, while this one waits.
double processor_s() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A few requests under way all the time, each with a buffer of its own, over a small file from end to end.
class DiskProbe {
 public:
  DiskProbe(const Options& options, std::uint64_t capacity_bytes)
      : memory_(buffer_count * request_bytes), tier_(disk_options(options, capacity_bytes, memory_.bytes())) {
    extent_ = tier_.reserve(capacity_bytes);
    request_count_ = capacity_bytes / request_bytes;
  }

  // What is written for the first time goes another way through many file systems, so that comes first, for a while.
  void fill() {
    const Clock::time_point start = Clock::now();
    std::uint64_t done = 0;
    while (done < request_count_ && (done < 2 || seconds_since(start) < fill_most_s)) {
      wait(done);
      events_[done % buffer_count] = store(done % buffer_count, done);
      ++done;
    }
    wait_all();
    request_count_ = done;
  }

  // Of what has just come from the disk, as it is checked, and again, as it is sealed before it goes back.
  double seal_rate() {
    constexpr std::uint64_t load_count = 8;
    double sealing_s = 0;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < load_count; ++i) {
      load(0, i).wait();
      const Clock::time_point start = Clock::now();
      sum = offload::checksum(memory_of(0), sum);
      sum = offload::checksum(memory_of(0), sum);
      sealing_s += seconds_since(start);
    }
    return sealing_s > 0 ? static_cast<double>(2 * load_count * request_bytes) / sealing_s : 0;
  }

  enum class Mix : std::uint8_t { loads, stores, both };

  double rate(Mix mix) {
    const Clock::time_point start = Clock::now();
    std::uint64_t count = 0;
    for (; count < 2 * buffer_count || seconds_since(start) < moment_s; ++count) {
      wait(count);
      const std::size_t buffer = count % buffer_count;
      const bool is_load = mix == Mix::loads || (mix == Mix::both && count % 2 == 0);
      // Loads and stores follow each other at some distance, as those of records do.
      const std::uint64_t place = is_load ? count + request_count_ / 2 : count;
      events_[buffer] = is_load ? load(buffer, place) : store(buffer, place);
    }
    wait_all();
    moved_bytes_ += static_cast<double>(count * request_bytes);
    return static_cast<double>(count * request_bytes) / seconds_since(start);
  }

  double moved_bytes() const { return moved_bytes_; }  // by rate(), so far

 private:
  static offload::DiskOptions disk_options(const Options& options, std::uint64_t capacity_bytes,
                                           std::span<std::byte> buffer) {
    offload::DiskOptions disk;
    disk.dirs = options.nvme_dirs;
    disk.capacity_bytes = capacity_bytes;
    disk.backend = options.io;
    disk.inflight_bytes = options.io_inflight_bytes;
    disk.block_bytes = options.io_block_bytes;
    disk.buffers = {buffer};
    return disk;
  }

  Event load(std::size_t buffer, std::uint64_t place) {
    return tier_.load(extent_, place % request_count_ * request_bytes, memory_of(buffer));
  }
  Event store(std::size_t buffer, std::uint64_t place) {
    return tier_.store(extent_, place % request_count_ * request_bytes, memory_of(buffer));
  }
  std::span<std::byte> memory_of(std::size_t buffer) const {
    return memory_.bytes().subspan(buffer * request_bytes, request_bytes);
  }
  void wait(std::uint64_t count) { events_[count % buffer_count].wait(); }
  void wait_all() {
    for (const Event& event : events_) event.wait();
  }

  offload::PrivateMemory memory_;
  offload::NvmeTier tier_;
  Extent extent_;
  std::uint64_t request_count_ = 0;
  double moved_bytes_ = 0;
  std::array<Event, buffer_count> events_;
};

// Nothing where the disk is full: that is for the plan to say, with what it needs.
std::unique_ptr<DiskProbe> make_probe(const Options& options, int ranks) {
  if (options.nvme_dirs.empty()) return nullptr;
  const std::uint64_t share_bytes =
      offload::nvme_free_bytes(options.nvme_dirs) / (4 * static_cast<std::uint64_t>(ranks));
  const std::uint64_t capacity_bytes = std::min(file_bytes_most, share_bytes) / request_bytes * request_bytes;
  if (capacity_bytes < file_bytes_least) return nullptr;
  try {
    return std::make_unique<DiskProbe>(options, capacity_bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_budget) throw;
    return nullptr;
  }
}

}  // namespace

void probe_disk(Communicator& communicator, const Options& options, MachineSpeed& speed) {
  using Mix = DiskProbe::Mix;
  const std::unique_ptr<DiskProbe> probe = make_probe(options, communicator.size());
  communicator.barrier(probe_tag);
  if (probe) probe->fill();
  std::array<std::vector<double>, 3> rates;
  const double processor_before_s = processor_s();
  for (std::size_t round = 0; round < round_count; ++round) {
    for (const Mix mix : {Mix::loads, Mix::stores, Mix::both}) {
      communicator.barrier(probe_tag);
      if (probe) rates[static_cast<std::size_t>(mix)].push_back(probe->rate(mix));
    }
  }
  communicator.barrier(probe_tag);
  if (!probe) return;
  speed.disk_processor_s_per_byte = (processor_s() - processor_before_s) / probe->moved_bytes();
  speed.disk_read_bytes_per_s = median(rates[static_cast<std::size_t>(Mix::loads)]);
  speed.disk_write_bytes_per_s = median(rates[static_cast<std::size_t>(Mix::stores)]);
  speed.disk_both_bytes_per_s = median(rates[static_cast<std::size_t>(Mix::both)]);
  speed.seal_bytes_per_s = probe->seal_rate();
}

}  // namespace strata::engine
