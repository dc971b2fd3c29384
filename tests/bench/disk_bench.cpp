// Reading, writing, and both at once through the disk tier, held against the best that fio does with the same file in
// the same run: its engines and depths are tried first, with 2 MiB pages as ours.
//   disk_bench [--dir DIR] [--size BYTES]     DIR: a folder on the disk, default build/bench/disk; BYTES: of the file,
//   2 GiB
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <strata/bytes.h>
#include "bench/bench_rows.h"
#include "offload/nvme_tier.h"
#include "offload/private_memory.h"

namespace strata::bench {
namespace {

using offload::NvmeTier;
using offload::PrivateMemory;

enum class Traffic { read, write, both };

// What is under way, and one more that turns round. Few slabs used again and again stay in the caches, fio's as well as
// ours: a virtual disk that copies reads a quarter more into 12 MiB than into 32.
constexpr std::uint64_t request_bytes = std::uint64_t{2} << 20;
constexpr std::size_t slab_count = 5;
constexpr std::size_t pair_count = 7;

// Streams the file through a few slabs, as an update does. Half of the file each way when it goes both.
class OurDisk {
 public:
  OurDisk(const std::string& dir, std::uint64_t size_bytes)
      : memory_(slab_count * request_bytes), tier_(options(dir, size_bytes)), extent_(tier_.reserve(size_bytes)) {
    seconds(Traffic::write);  // what was never written is read from nowhere, and written more slowly
  }

  double seconds(Traffic traffic) {
    return timed_s([&] {
      const std::uint64_t request_count = extent_.size_bytes / request_bytes;
      std::vector<Event> events(slab_count);
      for (std::uint64_t i = 0; i < request_count; ++i) {
        events[i % slab_count].wait();
        const auto slab = memory_.bytes().subspan(i % slab_count * request_bytes, request_bytes);
        const bool is_load = traffic == Traffic::read || (traffic == Traffic::both && i % 2 == 0);
        const std::uint64_t place = traffic == Traffic::both ? i / 2 + i % 2 * (request_count / 2) : i;
        events[i % slab_count] = is_load ? tier_.load(extent_, place * request_bytes, slab)
                                         : tier_.store(extent_, place * request_bytes, slab);
      }
      for (const Event& event : events) event.wait();
    });
  }

  const NvmeTier& tier() const { return tier_; }
  std::uint64_t size_bytes() const { return extent_.size_bytes; }

 private:
  offload::DiskOptions options(const std::string& dir, std::uint64_t size_bytes) const {
    offload::DiskOptions made;
    made.dirs = {dir};
    made.capacity_bytes = size_bytes;
    made.buffers = {memory_.bytes()};
    return made;
  }

  const PrivateMemory memory_;
  NvmeTier tier_;
  const Extent extent_;
};

struct FioSetting {
  std::string engine;
  std::string block;
  int depth = 0;
  std::string text() const { return fmt::format("{} bs={} depth={}", engine, block, depth); }
};

// fio on the tier's own file, which it reaches through this process's descriptor.
class Fio {
 public:
  Fio(int fd, std::uint64_t size_bytes)
      : file_(fmt::format("/proc/{}/fd/{}", ::getpid(), fd)), size_bytes_(size_bytes) {}

  // For all bytes of the file.
  double seconds(Traffic traffic, const FioSetting& setting) const {
    const std::uint64_t half_bytes = size_bytes_ / 2;
    std::string jobs;
    if (traffic == Traffic::both) {
      jobs = fmt::format("--name=r --rw=read --size={} --name=w --rw=write --size={} --offset={}", half_bytes,
                         half_bytes, half_bytes);
    } else {
      jobs = fmt::format("--name=j --rw={} --size={}", traffic == Traffic::read ? "read" : "write", size_bytes_);
    }
    const std::string command = fmt::format(
        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --output-format=json --thread --direct=1 --filename={} "
        "--ioengine={} "
        "--bs={} --iodepth={} --iomem_align=2M --scramble_buffers=0 --fallocate=none --gtod_reduce=1 {} {} 2>/dev/null",
        file_, setting.engine, setting.block, setting.depth,
        setting.engine == "io_uring" ? "--registerfiles --fixedbufs" : "", jobs);
    return seconds_of(nlohmann::json::parse(output_of(command)));
  }

  // The fastest of those that are worth trying, by the better of two runs each.
  FioSetting best(Traffic traffic) const {
    FioSetting best;
    double best_s = 0;
    for (const char* engine : {"io_uring", "libaio"}) {
      for (const char* block : {"1M", "2M"}) {
        for (const int depth : {2, 4, 8}) {
          const FioSetting setting = {engine, block, depth};
          const double time_s = std::min(seconds(traffic, setting), seconds(traffic, setting));
          if (best_s != 0 && time_s >= best_s) continue;
          best_s = time_s;
          best = setting;
        }
      }
    }
    return best;
  }

 private:
  // All jobs begin together: the last one's end is the end.
  static double seconds_of(const nlohmann::json& said) {
    double longest_s = 0;
    for (const auto& job : said.at("jobs")) {
      if (job.at("error").get<int>() != 0) throw std::runtime_error("fio failed");
      for (const char* way : {"read", "write"}) {
        const double rate = job.at(way).at("bw_bytes").get<double>();
        if (rate > 0) longest_s = std::max(longest_s, job.at(way).at("io_bytes").get<double>() / rate);
      }
    }
    if (longest_s == 0) throw std::runtime_error("fio moved nothing");
    return longest_s;
  }

  static std::string output_of(const std::string& command) {
    FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) throw std::runtime_error("no program can be started");
    std::string text;
    char buffer[4096];
    while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, count);
    const int status = ::pclose(pipe);
    if (status != 0 || text.empty())
      throw std::runtime_error(fmt::format("is fio installed? status {} of: {}", status, command));
    return text.substr(text.find('{'));
  }

  const std::string file_;
  const std::uint64_t size_bytes_;
};

int bench(int argc, char** argv) {
  Report report(argc, argv);
  std::string dir = "build/bench/disk";
  std::uint64_t size_bytes = std::uint64_t{2} << 30;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--dir") {
      dir = argv[i + 1];
    } else if (name == "--size") {
      size_bytes = parse_bytes(argv[i + 1]) / (2 * request_bytes) * (2 * request_bytes);
    } else {
      throw std::invalid_argument(fmt::format("no option '{}'", name));
    }
  }
  if (std::filesystem::create_directories(dir)) ::chmod(dir.c_str(), 0700);

  OurDisk ours(dir, size_bytes);
  for (const std::string& warning : ours.tier().warnings()) fmt::print("warning: {}\n", warning);
  const Fio fio(ours.tier().files().fds().front(), ours.size_bytes());
  const auto gigabytes = static_cast<double>(ours.size_bytes()) / 1e9;
  const std::vector<std::pair<std::string, Traffic>> rows = {
      {"disk/read", Traffic::read}, {"disk/write", Traffic::write}, {"disk/both", Traffic::both}};
  for (const auto& [name, traffic] : rows) {
    if (!report.wants(name)) continue;
    const FioSetting setting = fio.best(traffic);
    const Paired paired = measure_timed_pairs([&, way = traffic] { return ours.seconds(way); },
                                              [&, way = traffic] { return fio.seconds(way, setting); }, pair_count);
    report.add({name, gigabytes / paired.value_s, "GB/s", gigabytes / paired.limit_s, paired.ratio},
               fmt::format("{}; fio: {}", ours.tier().name(), setting.text()));
  }
  report.finish();
  return 0;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    return strata::bench::bench(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "disk_bench: {}\n", error.what());
    return 1;
  }
}
