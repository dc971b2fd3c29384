#include "offload/nvme_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include <strata/error.h>
#include "support/fresh_folder.h"
#include "support/same_bytes.h"

namespace strata::offload {
namespace {

using test::error_of;
using test::FreshFolder;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t stripe_bytes = 64 << 10;

Error refusal(const std::string& dir) {
  return error_of([&] { NvmeFiles files({dir}, 1 << 20, stripe_bytes); });
}

TEST(NvmeFiles, HaveNoNameAreOursAloneAndWhollyReserved) {
  const FreshFolder folder;
  const NvmeFiles files({folder.path()}, 1 << 20, stripe_bytes);
  EXPECT_TRUE(folder.is_empty());
  struct stat found = {};
  ASSERT_EQ(::fstat(files.fds().front(), &found), 0);
  EXPECT_TRUE(S_ISREG(found.st_mode));
  EXPECT_EQ(found.st_mode & 07777u, 0600u);
  EXPECT_EQ(found.st_nlink, 0u);
  EXPECT_EQ(found.st_size, 1 << 20);
  EXPECT_GE(found.st_blocks * 512, 1 << 20);
  // Nor can it be given one.
  const std::string link = "/proc/self/fd/" + std::to_string(files.fds().front());
  EXPECT_NE(::linkat(AT_FDCWD, link.c_str(), AT_FDCWD, folder.path("name").c_str(), AT_SYMLINK_FOLLOW), 0);
}

TEST(NvmeFiles, SeveralDirectoriesHaveEqualShares) {
  const FreshFolder a, b, c;
  const NvmeFiles files({a.path(), b.path(), c.path()}, 1 << 20, stripe_bytes);
  ASSERT_EQ(files.fds().size(), 3u);
  for (const int fd : files.fds()) {
    struct stat found = {};
    ASSERT_EQ(::fstat(fd, &found), 0);
    EXPECT_EQ(static_cast<std::uint64_t>(found.st_size), 6 * stripe_bytes);  // 16 stripes: 6, 5 and 5, rounded up
  }
  EXPECT_THAT(files.names()[1], HasSubstr(b.path()));
}

TEST(NvmeFiles, RefuseADirectoryThatIsNone) {
  const FreshFolder folder;
  std::ofstream(folder.path("file")) << "x";
  const Error missing = refusal(folder.path("missing"));
  EXPECT_EQ(missing.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(missing.what(), HasSubstr("mkdir -m 700 '" + folder.path("missing") + "'"));
  EXPECT_EQ(refusal(folder.path("file")).code(), ErrorCode::invalid_argument);
  EXPECT_EQ(refusal("").code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error_of([] { NvmeFiles files({}, 4096, 4096); }).code(), ErrorCode::invalid_argument);
}

TEST(NvmeFiles, RefuseASymbolicLink) {
  const FreshFolder folder;
  std::filesystem::create_directory(folder.path("real"));
  std::filesystem::create_symlink("real", folder.path("link"));
  const Error error = refusal(folder.path("link"));
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("is a symbolic link"), HasSubstr("'" + folder.path("real") + "'")));
}

TEST(NvmeFiles, RefuseADirectoryThatOthersMayWriteTo) {
  const FreshFolder folder;
  for (const mode_t mode : {0770, 0702, 01777}) {
    ASSERT_EQ(::chmod(folder.path().c_str(), mode), 0);
    const Error error = refusal(folder.path());
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("chmod 700 '" + folder.path() + "'"));
  }
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  EXPECT_NO_THROW(NvmeFiles({folder.path()}, 4096, 4096));
}

TEST(NvmeFiles, RefuseTheDirectoryOfSomebodyElse) {
  if (::geteuid() == 0) {
    const FreshFolder folder;
    ASSERT_EQ(::chown(folder.path().c_str(), 65534, 65534), 0);
    EXPECT_THAT(refusal(folder.path()).what(), HasSubstr("is that of user 65534"));
    return;
  }
  EXPECT_THAT(refusal("/").what(), HasSubstr("is that of user 0"));
}

TEST(NvmeFiles, RefuseBlocksThatTheDiskCannotMove) {
  const FreshFolder folder;
  EXPECT_EQ(error_of([&] { NvmeFiles files({folder.path()}, 4096, 1000); }).code(), ErrorCode::invalid_argument);
}

TEST(NvmeFiles, SayWhatIsFree) {
  const FreshFolder a, b;
  struct statvfs space = {};
  ASSERT_EQ(::statvfs(a.path().c_str(), &space), 0);
  const double free_bytes = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  EXPECT_NEAR(static_cast<double>(nvme_free_bytes({a.path()})), free_bytes, 0.1 * free_bytes);
  // The same file system twice is no more space.
  EXPECT_NEAR(static_cast<double>(nvme_free_bytes({a.path(), b.path()})), free_bytes, 0.1 * free_bytes);
  EXPECT_EQ(nvme_free_bytes({}), 0u);
  EXPECT_EQ(nvme_alignment_bytes({a.path()}), NvmeFiles({a.path()}, 4096, 1 << 20).alignment_bytes());
  EXPECT_EQ(error_of([&] { nvme_free_bytes({a.path("missing")}); }).code(), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace strata::offload
