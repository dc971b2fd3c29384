// What a job of real processes does when one of them dies, freezes, fails or does not fit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>

#include "support/process.h"

namespace strata {
namespace {

using test::Program;
using test::wait_until_dead;
using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string strata_program = STRATA_BIN "/strata";
const std::string rank_program = STRATA_RANK_PROGRAM;

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

std::set<std::string> shared_memory_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

// Launched together, and afterwards nothing may be left of it.
class Launched : public testing::Test {
 protected:
  void start(int count, const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {strata_program, "run", "-n", std::to_string(count), "--", rank_program};
    words.insert(words.end(), arguments.begin(), arguments.end());
    run_ = std::make_unique<Program>(words);
    ranks_ = test::wait_for_children(run_->pid(), static_cast<std::size_t>(count));
    ASSERT_THAT(ranks_, SizeIs(static_cast<std::size_t>(count)));
  }

  void TearDown() override {
    for (const pid_t rank : ranks_) EXPECT_FALSE(test::alive(rank)) << "pid " << rank;
    EXPECT_EQ(shared_memory_names(), names_before_);
  }

  // Ranks are started in order, so their process ids ascend.
  pid_t rank(std::size_t number) const { return ranks_[number]; }

  // What ranks said of themselves, a line each.
  std::vector<std::string> complaints() {
    std::vector<std::string> found;
    std::istringstream stream(run_->errors());
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with("rank_program: ")) found.push_back(line);
    }
    return found;
  }

  std::unique_ptr<Program> run_;
  std::vector<pid_t> ranks_;
  const std::set<std::string> names_before_ = shared_memory_names();
};

TEST_F(Launched, ranks_work_together) {
  start(4, {"once"});
  EXPECT_EQ(run_->wait(), 0) << run_->errors();
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(run_->output(), HasSubstr(fmt::format("joined {}\n", rank)));
}

TEST_F(Launched, killed_rank_is_named_by_all_survivors_within_a_second) {
  for (const std::size_t victim : {1U, 0U, 3U}) {
    for (const std::string act : {"loop", "engine"}) {
      start(4, {act});
      ASSERT_TRUE(run_->wait_for_output(act == "loop" ? "round 1\n" : "step 1\n", ranks_.size()));
      const Stopwatch watch;
      ::kill(rank(victim), SIGKILL);
      for (std::size_t other = 0; other < 4; ++other) {
        EXPECT_TRUE(wait_until_dead(rank(other), 1 - watch.seconds()))
            << act << ": rank " << other << " outlives rank " << victim;
      }
      EXPECT_EQ(run_->wait(4), 128 + SIGKILL);
      EXPECT_LT(watch.seconds(), 4);
      EXPECT_THAT(complaints(),
                  AllOf(SizeIs(3), Each(AllOf(HasSubstr("peer_lost"), HasSubstr(fmt::format("rank {}", victim))))));
      EXPECT_THAT(run_->errors(),
                  HasSubstr(fmt::format("strata run: rank {} (pid {}) was killed by signal 9", victim, rank(victim))));
    }
  }
}

TEST_F(Launched, frozen_rank_is_named_within_the_timeout) {
  for (const std::string act : {"loop", "engine"}) {
    start(3, {act, "--strata-timeout", "2"});
    ASSERT_TRUE(run_->wait_for_output(act == "loop" ? "round 1\n" : "step 1\n", ranks_.size()));
    const Stopwatch watch;
    ::kill(rank(1), SIGSTOP);
    EXPECT_TRUE(wait_until_dead(rank(0), 3.5));
    EXPECT_TRUE(wait_until_dead(rank(2), 3.5 - watch.seconds()));
    EXPECT_GT(watch.seconds(), 1.5) << "given up too early";
    EXPECT_EQ(run_->wait(5), 3);
    EXPECT_THAT(complaints(), AllOf(SizeIs(2), Each(AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1")))));
  }
}

TEST_F(Launched, failure_between_calls_reaches_all_within_a_second) {
  const Stopwatch watch;
  start(4, {"throws"});
  EXPECT_EQ(run_->wait(5), 3);
  EXPECT_LT(watch.seconds(), 2.5);
  EXPECT_THAT(complaints(), AllOf(SizeIs(4), Each(HasSubstr("the data ran dry"))));
}

TEST_F(Launched, exception_through_the_engine_reaches_all_within_a_second) {
  start(4, {"engine-throws"});
  ASSERT_TRUE(run_->wait_for_output("step 1\n"));
  const Stopwatch watch;
  EXPECT_EQ(run_->wait(5), 3);
  EXPECT_LT(watch.seconds(), 1);
  const std::vector<std::string> said = complaints();
  EXPECT_THAT(
      said, AllOf(SizeIs(4), Each(AnyOf(HasSubstr("bad_alloc"), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1"))))));
}

TEST_F(Launched, another_order_is_an_error_on_all_ranks_that_names_both_calls) {
  start(3, {"order"});
  EXPECT_EQ(run_->wait(5), 3);
  EXPECT_THAT(complaints(), AllOf(SizeIs(3), Each(AllOf(HasSubstr("mismatch"), HasSubstr("barrier"),
                                                        HasSubstr("all_gather"), HasSubstr("another act")))));
}

TEST_F(Launched, killed_launcher_takes_the_ranks_with_it) {
  start(3, {"engine"});
  ASSERT_TRUE(run_->wait_for_output("step 1\n", 3));
  run_->signal(SIGKILL);
  EXPECT_EQ(run_->wait(), 128 + SIGKILL);
  for (const pid_t pid : ranks_) EXPECT_TRUE(wait_until_dead(pid, 2));
}

TEST(Together, other_settings_on_one_rank_are_named_on_all) {
  Program run({strata_program, "run", "-n", "3", "--", "sh", "-c",
               "test $STRATA_RANK = 2 && export STRATA_OPTIONS=stage=1; exec \"$0\" engine", rank_program});
  EXPECT_EQ(run.wait(10), 3);
  std::size_t found = 0;
  std::istringstream stream(run.errors());
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("rank_program: ")) continue;
    EXPECT_THAT(line, AllOf(HasSubstr("mismatch"), HasSubstr("stage"), HasSubstr("rank 2")));
    ++found;
  }
  EXPECT_EQ(found, 3U) << run.errors();
}

// Ranks that another launcher started: its variables set by hand.
using Variables = std::vector<std::string>;

std::unique_ptr<Program> start_rank(const Variables& variables, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {rank_program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return std::make_unique<Program>(words, test::ProgramSetup{.environment = variables, .input = {}});
}

Variables own(const std::string& job, int rank, int size) {
  return {fmt::format("STRATA_RANK={}", rank), fmt::format("STRATA_WORLD_SIZE={}", size), "STRATA_JOB=" + job};
}

Variables torchrun(const std::string& job, int rank, int size) {
  return {fmt::format("RANK={}", rank),       fmt::format("WORLD_SIZE={}", size),
          fmt::format("LOCAL_RANK={}", rank), fmt::format("LOCAL_WORLD_SIZE={}", size),
          "TORCHELASTIC_RUN_ID=" + job,       "MASTER_PORT=29500"};
}

Variables open_mpi(const std::string& job, int rank, int size) {
  return {fmt::format("OMPI_COMM_WORLD_RANK={}", rank), fmt::format("OMPI_COMM_WORLD_SIZE={}", size),
          fmt::format("OMPI_COMM_WORLD_LOCAL_RANK={}", rank), fmt::format("OMPI_COMM_WORLD_LOCAL_SIZE={}", size),
          "PMIX_NAMESPACE=" + job};
}

Variables slurm(const std::string& job, int rank, int size) {
  return {fmt::format("SLURM_PROCID={}", rank),
          fmt::format("SLURM_NTASKS={}", size),
          fmt::format("SLURM_LOCALID={}", rank),
          "SLURM_JOB_ID=" + job,
          "SLURM_STEP_ID=0",
          "SLURM_NNODES=1"};
}

using LauncherVariables = Variables (*)(const std::string&, int, int);

class OtherLauncher : public testing::TestWithParam<LauncherVariables> {};
INSTANTIATE_TEST_SUITE_P(All, OtherLauncher, testing::Values(&own, &torchrun, &open_mpi, &slurm));

TEST_P(OtherLauncher, ranks_find_each_other) {
  const std::string job = test::fresh_word();
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 2; rank >= 0; --rank) ranks.push_back(start_rank(GetParam()(job, rank, 3), {"once"}));
  for (const auto& rank : ranks) EXPECT_EQ(rank->wait(), 0) << rank->errors();
}

TEST_P(OtherLauncher, killed_rank_is_named_by_all_survivors) {
  const std::string job = test::fresh_word();
  std::vector<std::unique_ptr<Program>> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.push_back(start_rank(GetParam()(job, rank, 3), {"loop"}));
  for (const auto& rank : ranks) ASSERT_TRUE(rank->wait_for_output("round 1")) << rank->errors();
  ranks[1]->signal(SIGKILL);
  for (const std::size_t survivor : {0U, 2U}) {
    EXPECT_EQ(ranks[survivor]->wait(1), 3);
    EXPECT_THAT(ranks[survivor]->errors(), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1")));
  }
}

TEST(Joining, missing_ranks_are_named) {
  const std::string job = test::fresh_word();
  const auto zero = start_rank(own(job, 0, 4), {"once", "0.5"}), one = start_rank(own(job, 1, 4), {"once", "0.5"}),
             three = start_rank(own(job, 3, 4), {"once", "0.5"});
  for (const auto& rank : {zero.get(), one.get(), three.get()}) {
    EXPECT_EQ(rank->wait(), 3);
    EXPECT_THAT(rank->errors(), AllOf(HasSubstr("peer_lost"), HasSubstr("rank 2 of 4 did not come")));
  }
}

TEST(Joining, one_too_many_is_refused_and_the_job_goes_on) {
  const std::string job = test::fresh_word();
  const auto zero = start_rank(own(job, 0, 3), {"once"}), one = start_rank(own(job, 1, 3), {"once"});
  const auto extra = start_rank(own(job, 3, 4), {"once"}), twin = start_rank(own(job, 0, 3), {"once", "0.3"});
  EXPECT_EQ(extra->wait(), 3);
  EXPECT_THAT(extra->errors(), AllOf(HasSubstr("mismatch"), HasSubstr("4 ranks"), HasSubstr("says 3")));
  const auto two = start_rank(own(job, 2, 3), {"once"});
  EXPECT_EQ(one->wait(), 0) << one->errors();
  EXPECT_EQ(two->wait(), 0) << two->errors();
  // Either of the two ranks 0 may have come first.
  const int statuses = zero->wait() + twin->wait();
  EXPECT_EQ(statuses, 3) << zero->errors() << twin->errors();
}

TEST(Joining, second_process_with_a_rank_is_refused_and_the_job_goes_on) {
  const std::string job = test::fresh_word();
  const auto zero = start_rank(own(job, 0, 3), {"loop"}), one = start_rank(own(job, 1, 3), {"loop"}),
             two = start_rank(own(job, 2, 3), {"loop"});
  for (const auto& rank : {zero.get(), one.get(), two.get()})
    ASSERT_TRUE(rank->wait_for_output("round 1")) << rank->errors();
  const auto twin = start_rank(own(job, 1, 3), {"loop", "0.3"});
  EXPECT_EQ(twin->wait(), 3);
  EXPECT_THAT(twin->errors(), AllOf(HasSubstr("mismatch"), HasSubstr("runs already"), HasSubstr("rank 1 of 3")));
  for (const auto& rank : {zero.get(), one.get(), two.get()}) EXPECT_EQ(rank->wait(0), -1) << rank->errors();
}

TEST(Joining, wrong_variables_are_named) {
  const auto refused = [](const Variables& variables) {
    const auto rank = start_rank(variables, {"once"});
    EXPECT_EQ(rank->wait(), 3);
    return rank->errors();
  };
  EXPECT_THAT(refused({"STRATA_RANK=5", "STRATA_WORLD_SIZE=4", "STRATA_JOB=x"}),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("STRATA_RANK=5"), HasSubstr("STRATA_WORLD_SIZE=4")));
  EXPECT_THAT(refused({"RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_PORT=1"}),
              AllOf(HasSubstr("unsupported"), HasSubstr("LOCAL_WORLD_SIZE=2")));
}

TEST(Joining, without_variables_a_rank_is_alone) {
  const auto alone = start_rank({}, {"once"});
  EXPECT_EQ(alone->wait(), 0) << alone->errors();
  EXPECT_THAT(alone->output(), HasSubstr("joined 0"));
}

}  // namespace
}  // namespace strata
