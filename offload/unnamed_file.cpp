#include "offload/unnamed_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include <strata/bytes.h>
#include <strata/error.h>
#include "offload/private_memory.h"

namespace strata::offload {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::string_view name_prefix = ".strata-unnamed-";
constexpr int name_try_count = 16;
constexpr std::size_t zeros_bytes = std::size_t{1} << 20;

std::string said(int cause) { return fmt::format("{} (errno {})", std::strerror(cause), cause); }

// Names of files that were to lose them at once: the job died in between, or is about to take its own away, which it
// does not mind finding done. Their names are never looked at again, so nothing is lost.
void sweep(const detail::UniqueFd& directory) {
  const int copy = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  DIR* const listing = ::fdopendir(copy);
  if (listing == nullptr) {
    ::close(copy);
    return;
  }
  while (const dirent* entry = ::readdir(listing)) {
    if (!std::string_view(entry->d_name).starts_with(name_prefix)) continue;
    struct stat found = {};
    if (::fstatat(directory.get(), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found.st_mode) &&
        found.st_size == 0)
      ::unlinkat(directory.get(), entry->d_name, 0);
  }
  ::closedir(listing);
}

int open_and_unlink(const detail::UniqueFd& directory, int flags) {
  sweep(directory);
  for (int i = 0; i < name_try_count; ++i) {
    std::uint64_t number = 0;
    if (::getrandom(&number, sizeof number, 0) != sizeof number) return -1;
    const std::string name = fmt::format("{}{:016x}", name_prefix, number);
    const int fd = ::openat(directory.get(), name.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | flags, S_IRUSR | S_IWUSR);
    if (fd < 0 && errno == EEXIST) continue;
    // A file system may make the file and then refuse the flags.
    const int cause = errno;
    if (fd >= 0 || cause == EINVAL) ::unlinkat(directory.get(), name.c_str(), 0);
    errno = cause;
    return fd;
  }
  errno = EEXIST;
  return -1;
}

int open_unnamed(const detail::UniqueFd& directory, int extra_flags) {
  const int flags = O_RDWR | O_CLOEXEC | extra_flags;
  const int fd = ::openat(directory.get(), ".", O_TMPFILE | O_EXCL | flags, S_IRUSR | S_IWUSR);
  // EISDIR and ENOENT are those of kernels that do not know the flag.
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
  return open_and_unlink(directory, flags);
}

// Of direct I/O, by the file system's word; 0 when it says that there is none. Without a word, a page.
std::size_t direct_alignment_bytes(const detail::UniqueFd& fd) {
  struct statx found = {};
  if (::statx(fd.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) != 0 || (found.stx_mask & STATX_DIOALIGN) == 0)
    return page_bytes;
  return std::max<std::size_t>(found.stx_dio_mem_align, found.stx_dio_offset_align);
}

std::uint64_t free_bytes(const detail::UniqueFd& fd) {
  struct statvfs found = {};
  return ::fstatvfs(fd.get(), &found) == 0 ? std::uint64_t{found.f_bavail} * found.f_frsize : 0;
}

// Asked before: going beyond it is a signal that ends the process.
void check_size_limit(const std::string& dir, std::uint64_t size_bytes) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || size_bytes <= limit.rlim_cur) return;
  throw Error(
      ErrorCode::out_of_budget,
      fmt::format("the directory '{}' cannot hold a file of {}: this process may write files of {} at most: raise "
                  "the limit (ulimit -f), or stripe over more directories",
                  dir, format_bytes(size_bytes), format_bytes(limit.rlim_cur)));
}

int fill_with_zeros(const detail::UniqueFd& fd, std::uint64_t size_bytes) {
  const PrivateMemory zeros(zeros_bytes);
  std::uint64_t done = 0;
  while (done < size_bytes) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(zeros_bytes, size_bytes - done));
    const ssize_t written = ::pwrite(fd.get(), zeros.bytes().data(), count, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? ENOSPC : errno;
    done += static_cast<std::uint64_t>(written);
  }
  return 0;
}

int allocate(const detail::UniqueFd& fd, std::uint64_t size_bytes) {
  int failed = 0;
  do {
    failed = ::fallocate(fd.get(), 0, 0, static_cast<off_t>(size_bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed == 0) return 0;
  return errno == EOPNOTSUPP || errno == ENOSYS ? fill_with_zeros(fd, size_bytes) : errno;
}

}  // namespace

detail::UniqueFd open_own_directory(const std::string& dir) {
  detail::UniqueFd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    const int cause = errno;
    struct stat found = {};
    if (::lstat(dir.c_str(), &found) == 0 && S_ISLNK(found.st_mode)) {
      const std::unique_ptr<char, void (*)(void*)> target(::realpath(dir.c_str(), nullptr), std::free);
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("'{}' is a symbolic link: name the directory itself{}", dir,
                              target ? fmt::format(", '{}'", target.get()) : std::string()));
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is no directory to keep bytes in: {}{}", dir, said(cause),
                            cause == ENOENT ? fmt::format("; make it: mkdir -m 700 '{}'", dir) : std::string()));
  }
  struct stat found = {};
  if (::fstat(fd.get(), &found) != 0)
    throw Error(ErrorCode::io, fmt::format("the directory '{}': {}", dir, said(errno)));
  if (found.st_uid != ::geteuid())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the directory '{}' is that of user {}, and this is user {}: name one of your own", dir,
                            found.st_uid, ::geteuid()));
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the directory '{}' has mode {:04o}, so others may write to it: chmod 700 '{}', or name "
                            "another one",
                            dir, found.st_mode & 07777u, dir));
  return fd;
}

UnnamedFile open_unnamed_file(const detail::UniqueFd& directory, const std::string& dir) {
  UnnamedFile file;
  file.fd = detail::UniqueFd(open_unnamed(directory, O_DIRECT));
  file.is_direct = static_cast<bool>(file.fd);
  if (!file.fd && (errno == EINVAL || errno == EOPNOTSUPP)) file.fd = detail::UniqueFd(open_unnamed(directory, 0));
  if (!file.fd)
    throw Error(ErrorCode::io, fmt::format("no file can be made in the directory '{}': {}", dir, said(errno)));

  struct stat found = {};
  if (::fstat(file.fd.get(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_nlink != 0)
    throw Error(ErrorCode::io, fmt::format("the file made in '{}' is not what it was made as", dir));
  if (file.is_direct) {
    const std::size_t alignment_bytes = direct_alignment_bytes(file.fd);
    if (alignment_bytes == 0) {
      file.is_direct = false;
      ::fcntl(file.fd.get(), F_SETFL, 0);
    }
    file.alignment_bytes = std::max(page_bytes, alignment_bytes);
  }
  return file;
}

void reserve_whole(const UnnamedFile& file, const std::string& dir, std::uint64_t size_bytes) {
  if (size_bytes == 0) return;
  check_size_limit(dir, size_bytes);
  if (size_bytes > static_cast<std::uint64_t>(LLONG_MAX))
    throw Error(ErrorCode::out_of_budget, fmt::format("no file in '{}' can hold {} bytes", dir, size_bytes));
  const std::uint64_t free_before_bytes = free_bytes(file.fd);
  const int cause = allocate(file.fd, size_bytes);
  if (cause == 0) return;
  const bool is_full = cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
  throw Error(is_full ? ErrorCode::out_of_budget : ErrorCode::io,
              fmt::format("the directory '{}' cannot hold {} (free: {}): {}", dir, format_bytes(size_bytes),
                          format_bytes(free_before_bytes), said(cause)));
}

}  // namespace strata::offload
