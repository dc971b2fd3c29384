// What a disk does to training that lies: every rank ends with an error that says what and where, and no step uses it.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "support/fresh_folder.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

using testing::HasSubstr;

// Calls act(descriptor, bytes) for this process's unnamed files in the folder, opened anew without O_DIRECT.
void for_each_unnamed_file(const FreshFolder& folder, const std::function<void(int, off_t)>& act) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (!target.starts_with(folder.path())) continue;
    const int fd = open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0) << target;
    struct stat status {};
    fstat(fd, &status);
    act(fd, status.st_size);
    fsync(fd);
    close(fd);
  }
}

void flip_a_bit_in_every_page(const FreshFolder& folder) {
  for_each_unnamed_file(folder, [](int fd, off_t size_bytes) {
    for (off_t at = 100; at < size_bytes; at += 4096) {
      unsigned char byte = 0;
      ASSERT_EQ(pread(fd, &byte, 1, at), 1);
      byte ^= 0x10;
      ASSERT_EQ(pwrite(fd, &byte, 1, at), 1);
    }
  });
}

struct Homes {
  std::string name;
  Home params, optimizer, gradients;
};

class LyingDisk : public testing::TestWithParam<Homes> {
 protected:
  // Two slots only, so that not everything has been loaded ahead when the disk goes bad.
  ToyRun run_on_disk(int ranks) const {
    ToyRun run;
    run.ranks = ranks;
    run.steps = 6;
    run.options.chunk = 2048;
    run.options.nvme_dirs = {folder_.path()};
    run.options.params = GetParam().params;
    run.options.optimizer = GetParam().optimizer;
    run.options.gradients = GetParam().gradients;
    run.options.prefetch = 0;
    const Machine machine{.device_free_bytes = std::uint64_t{1} << 40,
                          .nvme_free_bytes = std::uint64_t{1} << 40,
                          .local_rank_count = static_cast<std::uint32_t>(ranks)};
    const Plan roomy = make_plan(toy_units(), *adamw(), ranks, run.options, machine);
    run.options.device_memory_bytes = std::uint64_t{1} << 30;
    run.options.host_memory_bytes = roomy.total_bytes(TierKind::host) - 1;
    return run;
  }
  void TearDown() override { EXPECT_TRUE(folder_.is_empty()); }

  const FreshFolder folder_;
};

TEST_P(LyingDisk, flipped_bits_end_training_with_what_and_where) {
  for (const int ranks : {1, 2}) {
    ToyRun run = run_on_disk(ranks);
    run.before_step = [&](Engine& engine, int rank, int step) {
      EXPECT_LE(engine.plan().slot_count, 2u);
      if (rank == 0 && step >= 1) flip_a_bit_in_every_page(folder_);
    };
    const auto errors =
        on_each_rank(ranks, [&](int, Communicator& world) { train_toy(world, run); }, {.silence_s = 5, .call_s = 10});
    bool told = false;
    for (const std::string& error : errors) {
      EXPECT_NE(error, "") << "a rank went on";
      if (error.starts_with("corruption")) {
        told = true;
        EXPECT_THAT(error, HasSubstr("unit"));
      } else {
        EXPECT_THAT(error, HasSubstr("peer_lost"));
      }
    }
    EXPECT_TRUE(told) << errors[0];
  }
}

TEST_P(LyingDisk, a_file_cut_short_ends_training_too) {
  ToyRun run = run_on_disk(1);
  run.before_step = [&](Engine&, int, int step) {
    if (step == 1) for_each_unnamed_file(folder_, [](int fd, off_t) { ASSERT_EQ(ftruncate(fd, 4096), 0); });
  };
  const auto errors = on_each_rank(1, [&](int, Communicator& world) { train_toy(world, run); });
  EXPECT_THAT(errors[0], testing::AnyOf(HasSubstr("corruption"), HasSubstr("io:")));
}

INSTANTIATE_TEST_SUITE_P(of, LyingDisk,
                         testing::Values(Homes{"records", Home::device, Home::nvme, Home::device},
                                         Homes{"published", Home::nvme, Home::device, Home::device},
                                         Homes{"accumulators", Home::device, Home::device, Home::nvme},
                                         Homes{"everything", Home::nvme, Home::nvme, Home::nvme}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test
