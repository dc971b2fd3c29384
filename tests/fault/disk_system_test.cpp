// Systems that refuse what the disk tier would like best, and jobs that die: io_uring, pinned memory, direct I/O,
// unnamed files, space.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "support/fresh_folder.h"
#include "support/process_fork.h"
#include "support/refused_syscall.h"
#include "support/small_disk.h"

namespace strata::test {
namespace {

using offload::DiskOptions;
using offload::NvmeTier;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

// What a tier is, whether it works, and what it warns of.
std::string report(const DiskOptions& options) {
  NvmeTier tier(options);
  const std::string wrong = round_trip(tier);
  return fmt::format("{}; {}; {} warnings: {}", tier.name(), wrong.empty() ? "works" : wrong, tier.warnings().size(),
                     fmt::join(tier.warnings(), " | "));
}

std::string why_no_uring() {
  const FreshFolder folder;
  try {
    NvmeTier tier(small_disk({folder.path()}, IoBackend::uring));
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

#define SKIP_WITHOUT_URING() \
  if (const std::string reason = why_no_uring(); !reason.empty()) GTEST_SKIP() << reason

class RefusedRing : public testing::TestWithParam<int> {};

TEST_P(RefusedRing, IsReplacedByThreadsWithOneWarning) {
  SKIP_WITHOUT_URING();
  const FreshFolder folder;
  ForkedCall call([&] {
    refuse_syscall(SYS_io_uring_setup, GetParam());
    return report(small_disk({folder.path()}));
  });
  EXPECT_THAT(call.result(), AllOf(HasSubstr("nvme (threads, "), HasSubstr("works; 1 warnings: "),
                                   HasSubstr("the system refuses io_uring"),
                                   HasSubstr(fmt::format("(errno {})", GetParam())), HasSubstr("threads instead")));
}

TEST_P(RefusedRing, IsAnErrorWhereItWasAskedFor) {
  SKIP_WITHOUT_URING();
  const FreshFolder folder;
  ForkedCall call([&] {
    refuse_syscall(SYS_io_uring_setup, GetParam());
    return report(small_disk({folder.path()}, IoBackend::uring));
  });
  EXPECT_THAT(call.result(), AllOf(HasSubstr("Error: unsupported: the system refuses io_uring"),
                                   HasSubstr(fmt::format("(errno {})", GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(Disk, RefusedRing, testing::Values(EPERM, ENOSYS, ENOMEM));

TEST(DiskSystem, WorksWithoutRegisteredFiles) {
  SKIP_WITHOUT_URING();
  const FreshFolder folder;
  ForkedCall call([&] {
    constexpr std::uint32_t register_files = 2;  // the probe (8) and buffers (0) stay
    refuse_syscall_with(SYS_io_uring_register, 1, register_files, EINVAL);
    return report(small_disk({folder.path(), folder.path()}, IoBackend::uring));
  });
  EXPECT_THAT(call.result(), AllOf(HasSubstr("nvme (io_uring, "), HasSubstr("works; 0 warnings")));
}

void become_nobody() {
  constexpr uid_t nobody = 65534;
  if (::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0)
    throw std::runtime_error("this user cannot become another one");
}

bool hand_to_nobody(const std::string& path) { return ::chown(path.c_str(), 65534, 65534) == 0; }

TEST(DiskSystem, BuffersThatMayNotBePinnedAreUsedUnpinned) {
  SKIP_WITHOUT_URING();
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become a user without privileges";
  const FreshFolder folder;
  ASSERT_TRUE(hand_to_nobody(folder.path()));
  ForkedCall call([&] {
    become_nobody();
    const rlimit limit = {256 << 10, 256 << 10};
    ::setrlimit(RLIMIT_MEMLOCK, &limit);
    const offload::PrivateMemory memory(8 << 20);
    DiskOptions options = small_disk({folder.path()});
    options.buffers = {memory.bytes()};
    return report(options);
  });
  const std::string said = call.result();
  // Some kernels count the ring itself, too.
  if (said.find("threads instead") != std::string::npos) GTEST_SKIP() << said;
  EXPECT_THAT(said, AllOf(HasSubstr("nvme (io_uring, "), HasSubstr("works; 1 warnings: the system does not pin 8 MiB"),
                          HasSubstr("ulimit -l")));
}

TEST(DiskSystem, WithoutDirectIoThePageCacheServesWithOneWarning) {
  const FreshFolder folder;
  ForkedCall call([&] {
    refuse_syscall_with(SYS_openat, 2, O_DIRECT, EINVAL);
    return report(small_disk({folder.path()}));
  });
  EXPECT_THAT(call.result(), AllOf(HasSubstr(", buffered); works; 1 warnings: "), HasSubstr(folder.path()),
                                   HasSubstr("no direct I/O")));
}

constexpr std::uint32_t unnamed_flag = O_TMPFILE & ~O_DIRECTORY;

TEST(DiskSystem, WithoutUnnamedFilesTheNameIsTakenAwayAtOnce) {
  const FreshFolder folder, elsewhere;
  const std::string victim = elsewhere.path("victim");
  std::ofstream(victim) << "precious";
  std::filesystem::create_symlink(victim, folder.path(".strata-unnamed-0000000000000001"));
  std::ofstream(folder.path(".strata-unnamed-0000000000000002")) << "somebody's";
  std::ofstream(folder.path(".strata-unnamed-0000000000000003")).flush();  // left by one that died in between
  ForkedCall call([&] {
    refuse_syscall_with(SYS_openat, 2, unnamed_flag, EOPNOTSUPP);
    NvmeTier first(small_disk({folder.path()})), second(small_disk({folder.path()}));
    std::string names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      names += entry.path().filename().string().back();
    std::sort(names.begin(), names.end());
    return "names " + names + ": " + round_trip(first, 1) + round_trip(second, 2);
  });
  EXPECT_EQ(call.result(), "names 12: ");
  std::string content;
  std::ifstream(victim) >> content;
  EXPECT_EQ(content, "precious");
}

// The kernel's own answers, to one of the two acts; the other one goes on.
TEST(DiskSystem, AFailureIsAnErrorWithPlaceAndCauseAndHarmsNothingElse) {
  const FreshFolder folder;
  for (const auto& [number, cause, times] :
       {std::tuple(SYS_pread64, EIO, ", 4 times"), std::tuple(SYS_pread64, EINTR, ", 4 times"),
        std::tuple(SYS_pwrite64, EIO, ""), std::tuple(SYS_pwrite64, ENOSPC, ""),
        std::tuple(SYS_pwrite64, EDQUOT, "")}) {
    ForkedCall call([&, number = number, cause = cause]() -> std::string {
      refuse_syscall(static_cast<int>(number), cause);
      NvmeTier tier(small_disk({folder.path()}, IoBackend::threads));
      tier.reserve(4096);
      const Extent extent = tier.reserve(4096);
      const offload::PrivateMemory memory(4096);
      const auto load = [&] { tier.load(extent, 0, memory.bytes()).wait(); };
      const auto store = [&] { tier.store(extent, 0, memory.bytes()).wait(); };
      const bool is_read = number == SYS_pread64;
      is_read ? store() : load();
      const Error error = is_read ? error_of(load) : error_of(store);
      is_read ? store() : load();
      return error.what();
    });
    EXPECT_EQ(call.result(),
              fmt::format("io: {} of 4096 bytes at offset 4096 of the unnamed file in '{}': {} (errno {}){}",
                          number == SYS_pread64 ? "read" : "write", folder.path(), std::strerror(cause), cause, times));
  }
}

TEST(DiskSystem, TwoTiersInOneFolderNeverMeet) {
  const FreshFolder folder;
  NvmeTier first(small_disk({folder.path()})), second(small_disk({folder.path()}));
  const offload::PrivateMemory ones(4096), twos(4096), target(4096);
  fill_random(ones.bytes(), 1);
  fill_random(twos.bytes(), 2);
  const Extent of_first = first.reserve(4096), of_second = second.reserve(4096);
  EXPECT_EQ(of_first.offset_bytes, of_second.offset_bytes);
  first.store(of_first, 0, ones.bytes()).wait();
  second.store(of_second, 0, twos.bytes()).wait();
  first.load(of_first, 0, target.bytes()).wait();
  EXPECT_TRUE(same_bytes(ones.bytes(), target.bytes()));
  second.load(of_second, 0, target.bytes()).wait();
  EXPECT_TRUE(same_bytes(twos.bytes(), target.bytes()));
  EXPECT_TRUE(folder.is_empty());
}

TEST(DiskSystem, AKilledJobLeavesNothingAndTheNextOneStarts) {
  const FreshFolder folder;
  for (int round = 0; round < 3; ++round) {
    std::array<int, 2> ends = {};
    ASSERT_EQ(::pipe(ends.data()), 0);
    ForkedCall call([&]() -> std::string {
      NvmeTier tier(small_disk({folder.path()}));
      const offload::PrivateMemory memory(1 << 20);
      const Extent extent = tier.reserve(1 << 20);
      for (int i = 0;; ++i) {
        const Event event = tier.store(extent, 0, memory.bytes());
        if (i == 20 && ::write(ends[1], "x", 1) != 1) return "no pipe";
        if (i % 4 == 0) event.wait();
      }
    });
    char said = 0;
    ASSERT_EQ(::read(ends[0], &said, 1), 1);
    call.signal(SIGKILL);
    EXPECT_THAT(call.result(), HasSubstr("killed by signal 9"));
    EXPECT_TRUE(folder.is_empty());
    NvmeTier next(small_disk({folder.path()}));
    EXPECT_EQ(round_trip(next), "");
    ::close(ends[0]);
    ::close(ends[1]);
  }
}

TEST(DiskSystem, DescriptorsAreGivenBack) {
  const auto count = [] {
    const std::filesystem::directory_iterator listing("/proc/self/fd");
    return std::distance(begin(listing), end(listing));
  };
  const FreshFolder folder;
  const auto before = count();
  for (int i = 0; i < 50; ++i) NvmeTier tier(small_disk({folder.path(), folder.path()}));
  EXPECT_EQ(count(), before);
}

// A file system of its own over a folder, for as long as this lives.
class SmallMount {
 public:
  SmallMount(const std::string& path, unsigned long flags, const char* options)
      : path_(path), is_there_(::mount("tmpfs", path.c_str(), "tmpfs", flags, options) == 0), cause_(errno) {}
  SmallMount(const SmallMount&) = delete;
  SmallMount& operator=(const SmallMount&) = delete;
  ~SmallMount() {
    if (is_there_) ::umount2(path_.c_str(), MNT_DETACH);
  }

  std::string why_not() const {
    return is_there_ ? "" : fmt::format("no file system can be mounted: {}", std::strerror(cause_));
  }

 private:
  const std::string path_;
  const bool is_there_;
  const int cause_;
};

TEST(DiskSystem, AFullDiskIsAnErrorAtTheStart) {
  const FreshFolder folder;
  const SmallMount disk(folder.path(), 0, "size=256k,mode=0700");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  const Error error = error_of([&] { NvmeTier tier(small_disk({folder.path()})); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_budget);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path()), HasSubstr("cannot hold 1 MiB (free: 256 KiB)"),
                                  HasSubstr("No space left on device")));
  DiskOptions smaller = small_disk({folder.path()});
  smaller.capacity_bytes = 128 << 10;  // what was taken by the first attempt is free again
  EXPECT_NO_THROW(NvmeTier tier(smaller));
  EXPECT_EQ(offload::nvme_free_bytes({folder.path()}), 256u << 10);
}

TEST(DiskSystem, AFileLimitIsAnErrorAndNoSignal) {
  const FreshFolder folder;
  ForkedCall call([&] {
    const rlimit limit = {64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return report(small_disk({folder.path()}));
  });
  EXPECT_THAT(call.result(), AllOf(HasSubstr("Error: out_of_budget"), HasSubstr(folder.path()), HasSubstr("1 MiB"),
                                   HasSubstr("64 KiB"), HasSubstr("ulimit -f")));
}

TEST(DiskSystem, MoreThanAnyFileHoldsIsAnError) {
  const FreshFolder folder;
  for (const std::uint64_t size : {std::uint64_t{1} << 55, (std::uint64_t{1} << 63) - 4096, std::uint64_t{1} << 63}) {
    DiskOptions options = small_disk({folder.path()});
    options.capacity_bytes = size;
    const Error error = error_of([&] { NvmeTier tier(options); });
    EXPECT_EQ(error.code(), ErrorCode::out_of_budget) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(folder.path()));
  }
}

TEST(DiskSystem, AReadOnlyDiskIsAnErrorAtTheStart) {
  const FreshFolder folder;
  const SmallMount disk(folder.path(), MS_RDONLY, "mode=0700");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  const Error error = error_of([&] { NvmeTier tier(small_disk({folder.path()})); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path()), HasSubstr("Read-only file system")));
}

TEST(DiskSystem, AFolderWithoutThePermissionIsAnErrorAtTheStart) {
  const FreshFolder folder;
  const bool is_root = ::geteuid() == 0;
  ASSERT_TRUE(!is_root || hand_to_nobody(folder.path()));
  ASSERT_EQ(::chmod(folder.path().c_str(), 0500), 0);
  ForkedCall call([&] {
    if (is_root) become_nobody();
    return report(small_disk({folder.path()}));
  });
  EXPECT_THAT(call.result(), AllOf(HasSubstr("Error: io"), HasSubstr(folder.path()), HasSubstr("Permission denied")));
}

}  // namespace
}  // namespace strata::test
