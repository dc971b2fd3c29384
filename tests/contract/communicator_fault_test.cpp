// Ranks that disagree, abort, leave, fall silent, stop or die: every other rank is told at once, and by name.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <latch>
#include <set>

#include <strata/error.h>

#include "contract/rank_worlds.h"

namespace strata::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class CommunicatorFault : public testing::TestWithParam<WorldKind> {
 protected:
  std::vector<std::string> run(int size, const RankBody& body, const Deadlines& deadlines = {}) const {
    return run_world(GetParam(), size, deadlines, body);
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, CommunicatorFault, testing::Values(WorldKind::threads, WorldKind::processes),
                         [](const auto& info) { return std::string(to_string(info.param)); });

struct Disagreement {
  const char* what;
  std::function<void(Communicator&, std::byte* block, bool odd)> call;
};

const std::vector<Disagreement>& disagreements() {
  static const std::vector<Disagreement> all{
      {"operation",
       [](Communicator& c, std::byte* block, bool odd) {
         if (odd) return c.barrier({.unit = 4, .act = "step"});
         c.all_gather(block, block, 8, Dtype::f32, {.unit = 4, .act = "gather"});
       }},
      {"dtype",
       [](Communicator& c, std::byte* block, bool odd) {
         const std::vector<float> own(8, 1.0f);
         c.all_gather(own.data(), block, 8, odd ? Dtype::f32 : Dtype::bf16, {});
       }},
      {"count",
       [](Communicator& c, std::byte* block, bool odd) {
         const std::vector<float> own(8, 1.0f);
         c.all_gather(own.data(), block, odd ? 8 : 7, Dtype::f32, {});
       }},
      {"unit",
       [](Communicator& c, std::byte* block, bool odd) {
         std::vector<float> sum(4);
         c.reduce_scatter(block, 4, Dtype::f32, {.accumulator = sum}, {.unit = odd ? 5u : 6u, .act = "commit"});
       }},
      {"reduce dtype",
       [](Communicator& c, std::byte* block, bool odd) {
         std::vector<float> sum(4);
         c.reduce_scatter(block, 4, Dtype::f32, {.accumulator = sum, .reduce_dtype = odd ? Dtype::bf16 : Dtype::f32},
                          {});
       }},
      {"place of the buffer",
       [](Communicator& c, std::byte* block, bool odd) {
         std::vector<float> sum(4);
         c.reduce_scatter(block + (odd ? 64 : 0), 4, Dtype::f32, {.accumulator = sum}, {});
       }},
      {"sharing",
       [](Communicator& c, std::byte*, bool odd) { c.allocate(64, odd ? Sharing::common : Sharing::per_rank); }},
      {"sequence of calls so far",
       [](Communicator& c, std::byte*, bool odd) { c.barrier({.caller_hash = odd ? 7u : 8u, .act = "gather"}); }},
  };
  return all;
}

TEST_P(CommunicatorFault, RanksThatDisagreeAllGetBothCallsAndNothingIsWritten) {
  for (const Disagreement& test : disagreements()) {
    for (int odd_rank = 0; odd_rank < 3; ++odd_rank) {
      const auto said = run(3, [&](Communicator& c) {
        const ExchangeBlock block = c.allocate(4096, Sharing::per_rank);
        const std::string first = error_of([&] { test.call(c, block.bytes().data(), c.rank() == odd_rank); });
        for (const std::byte b : block.bytes()) {
          if (b != std::byte{0}) return std::string("bytes were written");
        }
        const std::string second = error_of([&] { c.barrier({}); });
        return first == second ? first : "first '" + first + "', then '" + second + "'";
      });
      const std::string other = odd_rank == 0 ? "rank 1 makes" : "rank " + std::to_string(odd_rank) + " makes";
      for (const std::string& text : said) {
        EXPECT_THAT(text,
                    AllOf(HasSubstr("mismatch: "), HasSubstr(test.what), HasSubstr("rank 0 makes"), HasSubstr(other)));
        EXPECT_THAT(text, Not(HasSubstr("first '"))) << "the cause stays the same";
        EXPECT_EQ(text, said[0]);
      }
    }
  }
}

TEST_P(CommunicatorFault, AMismatchShowsOperationDtypeCountUnitAndAct) {
  const auto said = run(2, [](Communicator& c) {
    const ExchangeBlock block = c.allocate(4096, Sharing::per_rank);
    return error_of([&] {
      if (c.rank() == 0)
        return c.all_gather(block.bytes().data(), block.bytes().data(), 9, Dtype::bf16, {.unit = 3, .act = "gather"});
      c.barrier({.unit = 12, .act = "evaluate"});
    });
  });
  for (const std::string& text : said) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("all_gather"), HasSubstr("9 x bf16"), HasSubstr("unit 3"), HasSubstr("'gather'")));
    EXPECT_THAT(text, AllOf(HasSubstr("barrier"), HasSubstr("unit 12"), HasSubstr("'evaluate'")));
  }
}

TEST_P(CommunicatorFault, AnAbortReachesAllRanksWithItsCause) {
  const auto begin = Clock::now();
  const auto said = run(4, [](Communicator& c) {
    c.barrier({});
    if (c.rank() == 2) c.abort("out of memory\nin the tokenizer");
    const std::string first = error_of([&] { c.barrier({}); });
    return first == error_of([&] { c.barrier({}); }) ? first : "another error the second time";
  });
  for (const std::string& text : said) EXPECT_EQ(text, "peer_lost: rank 2: out of memory in the tokenizer");
  EXPECT_LT(seconds_since(begin), 2);
}

TEST_P(CommunicatorFault, TheFirstCauseWins) {
  const auto said = run(4, [](Communicator& c) {
    c.abort("cause of " + std::to_string(c.rank()));
    return error_of([&] { c.barrier({}); });
  });
  for (const std::string& text : said) {
    EXPECT_EQ(text, said[0]);
    EXPECT_THAT(text, HasSubstr("cause of"));
  }
}

TEST_P(CommunicatorFault, ARankThatHasLeftIsNamedAtOnce) {
  const auto begin = Clock::now();
  const auto said = run(3, [](Communicator& c) -> std::string {
    c.barrier({});
    if (c.rank() == 1) return "";
    return error_of([&] { c.barrier({.act = "evaluate"}); });
  });
  EXPECT_EQ(said[1], "");
  EXPECT_THAT(said[0], AllOf(HasSubstr("peer_lost: rank 1 has left"), HasSubstr("'evaluate'")));
  EXPECT_THAT(said[2], HasSubstr("peer_lost: rank 1 has left"));
  EXPECT_LT(seconds_since(begin), 2);
}

TEST_P(CommunicatorFault, LeavingAfterTheLastCallHarmsNobody) {
  for (int round = 0; round < 20; ++round) {
    const auto said = run(4, [](Communicator& c) -> std::string {
      std::vector<double> values{1};
      c.all_reduce(values, {});
      return values[0] == c.size() ? "" : "sum";
    });
    for (const std::string& text : said) EXPECT_EQ(text, "");
  }
}

TEST_P(CommunicatorFault, ALiveRankThatDoesNotComeIsNamedWithItsLastCall) {
  const auto said = run(3,
                        [](Communicator& c) -> std::string {
                          c.barrier({.act = "first"});
                          if (c.rank() == 0) {
                            // Lives, and comes when the others have given up.
                            const auto begin = Clock::now();
                            while (seconds_since(begin) < 0.5) c.beat();
                          }
                          return error_of([&] { c.barrier({.act = "second"}); });
                        },
                        {.silence_s = 20, .call_s = 0.2});
  for (const std::string& text : said) {
    EXPECT_THAT(text, AllOf(HasSubstr("peer_lost: rank 0 lives"), HasSubstr("'second'"),
                            HasSubstr("last call: barrier"), HasSubstr("'first'")));
  }
}

TEST(CommunicatorSilence, ASilentThreadIsNamed) {
  std::latch others_done(2);
  const auto said = run_world(WorldKind::threads, 3, {.silence_s = 0.3}, [&](Communicator& c) -> std::string {
    c.barrier({});
    if (c.rank() == 1) {
      others_done.wait();
      return error_of([&] { c.barrier({}); });
    }
    const auto begin = Clock::now();
    const std::string text = error_of([&] { c.barrier({}); });
    others_done.count_down();
    return seconds_since(begin) < 3 ? text : "too late: " + text;
  });
  for (const std::string& text : said) EXPECT_THAT(text, HasSubstr("peer_lost: rank 1 has given no sign of life"));
}

// A rank that says over a pipe that it is at work, and then goes on until something ends it.
class Progress {
 public:
  Progress() {
    if (pipe(fds_) != 0) throw std::runtime_error("pipe");
  }
  ~Progress() {
    close(fds_[0]);
    close(fds_[1]);
  }
  void say() const { [[maybe_unused]] const auto written = write(fds_[1], "x", 1); }
  void await() const {
    char text = 0;
    ASSERT_EQ(read(fds_[0], &text, 1), 1);
  }

 private:
  int fds_[2] = {-1, -1};
};

RankBody endless_reduction(const Progress& progress, int teller) {
  return [&progress, teller](Communicator& c) {
    constexpr std::size_t count = 1 << 20;
    const ExchangeBlock block = c.allocate(count * 4 * static_cast<std::size_t>(c.size()), Sharing::per_rank);
    std::vector<float> sum(count);
    for (int round = 0;; ++round) {
      c.reduce_scatter(block.bytes().data(), count, Dtype::f32, {.accumulator = sum}, {.unit = 2, .act = "commit"});
      if (round == 3 && c.rank() == teller) progress.say();
    }
    return std::string();
  };
}

std::set<std::string> shared_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path().filename());
  return names;
}

TEST(CommunicatorDeath, AKilledRankIsNamedWithinASecondAndLeavesNothing) {
  const auto files = shared_files();
  for (const int victim : {0, 2}) {
    const Progress progress;
    ProcessWorld world(4, {}, endless_reduction(progress, victim));
    progress.await();
    const auto begin = Clock::now();
    world.rank(victim).signal(SIGKILL);
    for (int rank = 0; rank < 4; ++rank) {
      const std::string text = world.rank(rank).result();
      const std::string name = "peer_lost: rank " + std::to_string(victim) + " died";
      EXPECT_THAT(text, HasSubstr(rank == victim ? "[killed by signal 9]" : name)) << "rank " << rank;
    }
    EXPECT_LT(seconds_since(begin), 1);
  }
  EXPECT_EQ(shared_files(), files);
}

TEST(CommunicatorDeath, AStoppedRankIsNamedWithinTheTimeout) {
  const Progress progress;
  ProcessWorld world(3, {.silence_s = 0.5}, endless_reduction(progress, 1));
  progress.await();
  const auto begin = Clock::now();
  world.rank(1).signal(SIGSTOP);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(world.rank(rank).result(), HasSubstr("peer_lost: rank 1 has given no sign of life"));
  }
  EXPECT_LT(seconds_since(begin), 2);
  world.rank(1).signal(SIGCONT);
  EXPECT_THAT(world.rank(1).result(), HasSubstr("peer_lost: rank 1 has given no sign of life"));
}

TEST(CommunicatorDeath, AJobThatIsStoppedAsAWholeGoesOn) {
  const Progress progress;
  ProcessWorld world(2, {.silence_s = 0.4}, endless_reduction(progress, 0));
  progress.await();
  for (int rank = 0; rank < 2; ++rank) world.rank(rank).signal(SIGSTOP);
  const auto begin = Clock::now();
  while (seconds_since(begin) < 0.8) usleep(10'000);  // longer than the silence that is allowed
  for (int rank = 0; rank < 2; ++rank) world.rank(rank).signal(SIGCONT);
  usleep(200'000);
  world.rank(1).signal(SIGKILL);
  EXPECT_THAT(world.rank(0).result(), HasSubstr("peer_lost: rank 1 died"));
}

TEST(CommunicatorDeath, MemoryThatOneRankCannotHaveIsOutOfBudgetOnAll) {
  const auto said = run_world(WorldKind::processes, 3, {}, [](Communicator& c) {
    if (c.rank() == 2) {  // its part lies last, so the file has to grow for it
      signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{1 << 20, 1 << 20};
      setrlimit(RLIMIT_FSIZE, &limit);
    }
    const std::string refused = error_of([&] { c.allocate(4 << 20, Sharing::per_rank); });
    c.barrier({});
    return refused;
  });
  for (const std::string& text : said) EXPECT_THAT(text, AllOf(HasSubstr("out_of_budget"), HasSubstr("rank 2")));
}

}  // namespace
}  // namespace strata::test
