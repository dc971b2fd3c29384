#include "engine/cli/kernel_offers.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include <strata/detail/host_share.h>
#include <strata/detail/unique_fd.h>

#include "offload/private_memory.h"

namespace strata::cli {
namespace {

constexpr unsigned ring_entry_count = 8;
constexpr std::size_t buffer_bytes = std::size_t{8} << 20;

// Linux 5.19, 6.0 and 6.1; headers may be older than the kernel.
constexpr unsigned cooperative_task_run = 1U << 8;
constexpr unsigned single_issuer = 1U << 12;
constexpr unsigned deferred_task_run = 1U << 13;

struct SetupFlag {
  const char* name;
  unsigned flags;  // with those that it needs
};
constexpr std::array<SetupFlag, 3> setup_flags = {{{"COOP_TASKRUN", cooperative_task_run},
                                                   {"SINGLE_ISSUER", single_issuer},
                                                   {"DEFER_TASKRUN", single_issuer | deferred_task_run}}};

detail::UniqueFd set_up_ring(unsigned flags) {
  io_uring_params parameters = {};
  parameters.flags = flags;
  return detail::UniqueFd(static_cast<int>(::syscall(__NR_io_uring_setup, ring_entry_count, &parameters)));
}

int register_with(const detail::UniqueFd& ring, unsigned what, const void* items, unsigned count) {
  return static_cast<int>(::syscall(__NR_io_uring_register, ring.get(), what, items, count));
}

std::string refusal_of(int cause) {
  const std::uint64_t disabled = detail::read_kernel_number("/proc/sys/kernel/io_uring_disabled", 0);
  std::string text = fmt::format("{} (errno {})", std::strerror(cause), cause);
  if (cause == ENOSYS) return text + "; the kernel has none, or a sandbox hides it";
  if (disabled != 0) return text + fmt::format("; sysctl kernel.io_uring_disabled is {}: 0 allows it", disabled);
  if (cause == EPERM || cause == EACCES) return text + "; containers often forbid it: allow it in the seccomp profile";
  return text;
}

std::string chosen_of(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    if (word.front() == '[') return word.substr(1, word.size() - 2);
  }
  return {};
}

// Of the mapping that holds `address`.
std::uint64_t huge_kib_at(const void* address) {
  std::ifstream file("/proc/self/smaps");
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  std::string line;
  while (std::getline(file, line)) {
    unsigned long begin = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (inside && line.starts_with("AnonHugePages:")) return std::strtoull(line.c_str() + 14, nullptr, 10);
  }
  return 0;
}

std::string file_system_of(const std::string& dir) {
  struct statfs found = {};
  if (::statfs(dir.c_str(), &found) != 0) return "unknown";
  struct Known {
    std::uint64_t number;
    const char* name;
  };
  constexpr std::array<Known, 7> known = {{{0xEF53, "ext4"},
                                           {0x58465342, "xfs"},
                                           {0x9123683E, "btrfs"},
                                           {0x01021994, "tmpfs: memory, not a disk"},
                                           {0x794C7630, "overlayfs"},
                                           {0x6969, "nfs: a network, not a disk"},
                                           {0x2FC12FC1, "zfs"}}};
  const auto number = static_cast<std::uint64_t>(found.f_type) & 0xFFFFFFFF;
  for (const Known& one : known) {
    if (one.number == number) return one.name;
  }
  return fmt::format("number {:#x}", number);
}

}  // namespace

UringOffer ask_uring() {
  UringOffer offer;
  const detail::UniqueFd ring = set_up_ring(0);
  if (!ring) {
    offer.refusal = refusal_of(errno);
    return offer;
  }
  offer.usable = true;
  for (const SetupFlag& wanted : setup_flags) {
    (set_up_ring(wanted.flags) ? offer.setup_flags : offer.refused_flags).emplace_back(wanted.name);
  }
  const detail::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int file = null.get();
  offer.registers_files = register_with(ring, IORING_REGISTER_FILES, &file, 1) == 0;
  const offload::PrivateMemory memory(buffer_bytes);
  const iovec buffer = {memory.bytes().data(), memory.bytes().size()};
  offer.registers_buffers = register_with(ring, IORING_REGISTER_BUFFERS, &buffer, 1) == 0;
  if (!offer.registers_buffers) {
    const int cause = errno;
    offer.buffers_refusal = fmt::format("{} (errno {}){}", std::strerror(cause), cause,
                                        cause == ENOMEM ? "; raise the limit of locked memory (ulimit -l)" : "");
  }
  return offer;
}

PageOffer ask_pages() {
  constexpr const char* folder = "/sys/kernel/mm/transparent_hugepage/";
  PageOffer offer;
  offer.small_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  offer.huge_bytes = detail::read_kernel_number(fmt::format("{}hpage_pmd_size", folder), 0);
  offer.huge_mode = chosen_of(fmt::format("{}enabled", folder));
  const offload::PrivateMemory memory(buffer_bytes);
  offer.huge_given = huge_kib_at(memory.bytes().data()) > 0;
  return offer;
}

std::optional<std::uint64_t> locked_memory_limit_bytes() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

DirectoryOffer ask_directory(const std::string& dir) {
  DirectoryOffer offer;
  offer.file_system = file_system_of(dir);
  struct statvfs room = {};
  if (::statvfs(dir.c_str(), &room) == 0) offer.free_bytes = std::uint64_t{room.f_bavail} * room.f_frsize;
  const detail::UniqueFd file(::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  offer.unnamed_files = static_cast<bool>(file);
  struct statx found = {};
  if (!file || ::statx(file.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) != 0) return offer;
  if ((found.stx_mask & STATX_DIOALIGN) == 0) return offer;
  offer.memory_alignment_bytes = found.stx_dio_mem_align;
  offer.offset_alignment_bytes = found.stx_dio_offset_align;
  return offer;
}

}  // namespace strata::cli
