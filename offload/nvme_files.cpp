#include "offload/nvme_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <strata/error.h>
#include "offload/unnamed_file.h"

namespace strata::offload {

NvmeFiles::NvmeFiles(const std::vector<std::string>& dirs, std::uint64_t capacity_bytes, std::uint64_t stripe_bytes)
    : layout_{static_cast<std::uint32_t>(dirs.size()), stripe_bytes} {
  if (dirs.empty()) throw Error(ErrorCode::invalid_argument, "no directory for the disk tier");
  for (const std::string& dir : dirs) {
    const detail::UniqueFd directory = open_own_directory(dir);
    UnnamedFile file = open_unnamed_file(directory, dir);
    reserve_whole(file, dir, layout_.file_bytes(capacity_bytes));
    if (!file.is_direct) {
      is_direct_ = false;
      warnings_.push_back(
          fmt::format("the file system of '{}' has no direct I/O: its bytes go through the page cache, slower, and "
                      "take memory there",
                      dir));
    }
    alignment_bytes_ = std::max(alignment_bytes_, file.alignment_bytes);
    names_.push_back(fmt::format("the unnamed file in '{}'", dir));
    files_.push_back(std::move(file.fd));
  }
  if (stripe_bytes % alignment_bytes_ != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("I/O blocks of {} bytes are no multiple of {}, which the disk needs", stripe_bytes,
                            alignment_bytes_));
}

std::vector<int> NvmeFiles::fds() const {
  std::vector<int> fds;
  for (const detail::UniqueFd& file : files_) fds.push_back(file.get());
  return fds;
}

std::uint64_t nvme_free_bytes(const std::vector<std::string>& dirs) {
  if (dirs.empty()) return 0;
  std::map<dev_t, std::pair<std::uint64_t, std::uint64_t>> systems;  // free bytes, directories
  for (const std::string& dir : dirs) {
    const detail::UniqueFd directory = open_own_directory(dir);
    struct stat place = {};
    struct statvfs space = {};
    if (::fstat(directory.get(), &place) != 0 || ::fstatvfs(directory.get(), &space) != 0)
      throw Error(ErrorCode::io, fmt::format("cannot ask how much is free in '{}'", dir));
    auto& [free_bytes, count] = systems[place.st_dev];
    free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
    ++count;
  }
  std::uint64_t share_bytes = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [device, space] : systems) share_bytes = std::min(share_bytes, space.first / space.second);
  return share_bytes * dirs.size();
}

std::size_t nvme_alignment_bytes(const std::vector<std::string>& dirs) {
  std::size_t alignment_bytes = 4096;
  for (const std::string& dir : dirs)
    alignment_bytes = std::max(alignment_bytes, open_unnamed_file(open_own_directory(dir), dir).alignment_bytes);
  return alignment_bytes;
}

}  // namespace strata::offload
