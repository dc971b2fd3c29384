// A control group whose memory the kernel limits, for a test's child processes.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace strata::test {

class MemoryCgroup {
 public:
  // Where control groups cannot be made, valid() is false and reason() says why.
  explicit MemoryCgroup(std::uint64_t limit_bytes) {
    namespace fs = std::filesystem;
    const fs::path v1 = "/sys/fs/cgroup/memory";
    const bool is_v1 = fs::is_directory(v1);
    path_ = (is_v1 ? v1 : fs::path("/sys/fs/cgroup")) / ("strata-test-" + std::to_string(getpid()));
    if (mkdir(path_.c_str(), 0755) != 0) {
      reason_ = "no control group can be made in " + path_.parent_path().string();
      return;
    }
    made_ = true;
    peak_ = is_v1 ? "memory.max_usage_in_bytes" : "memory.peak";
    std::ofstream limit(path_ / (is_v1 ? "memory.limit_in_bytes" : "memory.max"));
    limit << limit_bytes << std::flush;
    if (!limit) reason_ = "the kernel has no memory limit for " + path_.string();
  }
  MemoryCgroup(const MemoryCgroup&) = delete;
  MemoryCgroup& operator=(const MemoryCgroup&) = delete;
  ~MemoryCgroup() {
    if (made_) rmdir(path_.c_str());
  }

  bool valid() const { return reason_.empty(); }
  const std::string& reason() const { return reason_; }

  // The calling process moves into the group; what it took before counts where it was.
  bool enter() const {
    std::ofstream procs(path_ / "cgroup.procs");
    procs << getpid() << std::flush;
    return static_cast<bool>(procs);
  }

  std::uint64_t peak_bytes() const {
    std::ifstream file(path_ / peak_);
    std::uint64_t bytes = 0;
    file >> bytes;
    return bytes;
  }

 private:
  std::filesystem::path path_;
  std::string peak_;
  std::string reason_;
  bool made_ = false;
};

}  // namespace strata::test
