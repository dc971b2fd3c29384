// `strata run` with shell commands as ranks. The scripts' last argument is a word by which their processes are found.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>

#include "support/process.h"

namespace strata {
namespace {

using test::Program;
using test::ProgramSetup;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::string strata_program = STRATA_BIN "/strata";

// Without what a launcher around this test may have set.
ProgramSetup clean() { return {.environment = {"OMP_NUM_THREADS", "STRATA_RANK", "STRATA_JOB"}, .input = {}}; }

std::vector<std::string> ranks_of(int count, const std::string& script, const std::string& word = "word") {
  return {strata_program, "run", "-n", std::to_string(count), "--", "sh", "-c", script, word};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  return found;
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

TEST(Launcher, AllGoodIsZeroAndSaysNothing) {
  Program run(ranks_of(3, "echo rank $STRATA_RANK"), clean());
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(lines(run.output()), UnorderedElementsAre("rank 0", "rank 1", "rank 2"));
  EXPECT_EQ(run.errors(), "");
}

TEST(Launcher, EveryRankFindsItsPlace) {
  const std::string script = "echo $STRATA_RANK $STRATA_WORLD_SIZE $STRATA_LOCAL_RANK $STRATA_JOB";
  std::set<std::string> jobs;
  for (int attempt = 0; attempt < 2; ++attempt) {
    ProgramSetup setup = clean();
    setup.environment.push_back("STRATA_WORLD_SIZE=77");
    Program run(ranks_of(2, script), setup);
    ASSERT_EQ(run.wait(), 0);
    const std::string job = lines(run.output()).at(0).substr(6);
    EXPECT_THAT(lines(run.output()), UnorderedElementsAre("0 2 0 " + job, "1 2 1 " + job));
    EXPECT_THAT(job, SizeIs(32));
    jobs.insert(job);
  }
  EXPECT_THAT(jobs, SizeIs(2));
}

TEST(Launcher, CoresAreSharedOutUnlessSet) {
  cpu_set_t mask;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(mask), &mask), 0);
  for (const int count : {1, 2, 3, 5}) {
    Program run(ranks_of(count, "echo $OMP_NUM_THREADS"), clean());
    ASSERT_EQ(run.wait(), 0);
    EXPECT_EQ(lines(run.output()).at(0), std::to_string(std::max(1, CPU_COUNT(&mask) / count)));
  }
  ProgramSetup setup = clean();
  setup.environment = {"OMP_NUM_THREADS=13"};
  Program run(ranks_of(2, "echo $OMP_NUM_THREADS"), setup);
  ASSERT_EQ(run.wait(), 0);
  EXPECT_THAT(lines(run.output()), ElementsAre("13", "13"));
}

TEST(Launcher, OnlyRankZeroReads) {
  ProgramSetup setup = clean();
  setup.input = "hello\n";
  Program run(ranks_of(3, "echo $STRATA_RANK:$(cat)"), setup);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(lines(run.output()), UnorderedElementsAre("0:hello", "1:", "2:"));
}

TEST(Launcher, RanksHoldNoneOfItsDescriptors) {
  const std::string script = "for fd in /proc/$$/fd/*; do echo ${fd##*/}; done";
  Program alone({"sh", "-c", script}, clean());
  ASSERT_EQ(alone.wait(), 0);
  Program run(ranks_of(1, script), clean());
  ASSERT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), alone.output());
}

TEST(Launcher, ArgumentsArriveAsTheyAre) {
  Program run(
      {strata_program, "run", "-n", "1", "--", "sh", "-c", "printf '%s|' \"$@\"", "sh", "--", "-n", "7", "a b", ""},
      clean());
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(run.output(), "--|-n|7|a b||");
  Program bare({strata_program, "run", "-n", "1", "printf", "%s|", "-n", "--", "--version"}, clean());
  EXPECT_EQ(bare.wait(), 0);
  EXPECT_EQ(bare.output(), "-n|--|--version|");
}

TEST(Launcher, FirstFailureDecides) {
  Program run(ranks_of(3, "case $STRATA_RANK in 1) exit 7;; *) sleep 0.3; exit 9;; esac"), clean());
  EXPECT_EQ(run.wait(), 7);
  EXPECT_THAT(lines(run.errors()), ElementsAre(AllOf(HasSubstr("rank 1 (pid "), HasSubstr("ended with status 7"))));
}

TEST(Launcher, KilledRankIsNamed) {
  Program run(ranks_of(3, "test $STRATA_RANK = 2 && kill -9 $$; sleep 0.2; exit 1"), clean());
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_THAT(lines(run.errors()),
              ElementsAre(AllOf(HasSubstr("rank 2 (pid "), HasSubstr("killed by signal 9 (Killed)"))));
}

TEST(Launcher, ProgramThatIsNotThere) {
  Program missing({strata_program, "run", "-n", "3", "--", "no-such-program"}, clean());
  EXPECT_EQ(missing.wait(), 127);
  EXPECT_THAT(lines(missing.errors()), ElementsAre(AllOf(HasSubstr("no-such-program"), HasSubstr("No such file"))));
  Program data({strata_program, "run", "-n", "2", "--", "/etc/passwd"}, clean());
  EXPECT_EQ(data.wait(), 126);
}

TEST(Launcher, WrongCommandLines) {
  const auto refused = [](std::vector<std::string> words) {
    words.insert(words.begin(), strata_program);
    Program run(words, clean());
    EXPECT_EQ(run.wait(), 2) << run.errors();
    EXPECT_EQ(run.output(), "");
    return run.errors();
  };
  for (const std::string number : {"0", "-1", "4097", "99999999999999999999", "two", "1.5", ""}) {
    EXPECT_THAT(refused({"run", "-n", number, "true"}), AllOf(HasSubstr("-n"), HasSubstr("1 to 4096")));
  }
  EXPECT_THAT(refused({"run", "true"}), HasSubstr("-n is required"));
  EXPECT_THAT(refused({"run", "-n", "2"}), HasSubstr("no program"));
  EXPECT_THAT(refused({"run", "-n", "2", "--"}), HasSubstr("no program"));
  EXPECT_THAT(refused({"run", "-n", "2", "--what", "true"}), HasSubstr("--what"));
  EXPECT_THAT(refused({"walk"}), HasSubstr("walk"));
  EXPECT_THAT(refused({}), HasSubstr("run"));
}

TEST(Launcher, HelpAndVersion) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"}, {"run", "--help"}, {"--version"}}) {
    std::vector<std::string> all = {strata_program};
    all.insert(all.end(), words.begin(), words.end());
    Program run(all, clean());
    EXPECT_EQ(run.wait(), 0);
    EXPECT_THAT(run.output(), HasSubstr("strata"));
    EXPECT_EQ(run.errors(), "");
  }
}

TEST(Launcher, RanksAreItsOnlyChildren) {
  Program run(ranks_of(3, "echo up; exec sleep 20"), clean());
  EXPECT_THAT(test::wait_for_children(run.pid(), 3), SizeIs(3));
  ASSERT_TRUE(run.wait_for_output("up\n", 3));
  EXPECT_THAT(test::children_of(run.pid()), SizeIs(3));
}

// A rank that counts signals: it says which it got, and ends by itself on SIGTERM.
constexpr const char* listener =
    "for s in INT HUP USR1 USR2; do trap \"echo got-$s\" $s; done; trap 'echo got-TERM; kill $!; exit 0' TERM;"
    "echo up; while :; do sleep 5 & wait $!; kill $! 2>/dev/null; done";

TEST(Launcher, PassesSignalsOn) {
  Program run(ranks_of(2, listener), clean());
  ASSERT_TRUE(run.wait_for_output("up\n", 2));
  for (const auto& [number, name] : {std::pair(SIGUSR1, "USR1"), {SIGUSR2, "USR2"}, {SIGHUP, "HUP"}, {SIGINT, "INT"}}) {
    run.signal(number);
    EXPECT_TRUE(run.wait_for_output(fmt::format("got-{}\n", name), 2)) << run.output();
  }
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(test::occurrences(run.output(), "got-TERM"), 2U);
}

TEST(Launcher, SameSignalWithinASecondCountsOnce) {
  Program run(ranks_of(2, listener), clean());
  ASSERT_TRUE(run.wait_for_output("up\n", 2));
  run.signal(SIGUSR1);
  ASSERT_TRUE(run.wait_for_output("got-USR1\n", 2));
  run.signal(SIGUSR1);  // well within a second
  run.signal(SIGUSR2);
  ASSERT_TRUE(run.wait_for_output("got-USR2\n", 2));
  EXPECT_EQ(test::occurrences(run.output(), "got-USR1"), 2U);
}

TEST(Launcher, KeyAtTheTerminalArrivesOnce) {
  if (!test::has_terminals()) GTEST_SKIP() << "no pseudo-terminals here: /dev/pts is not mounted";
  ProgramSetup setup = clean();
  setup.terminal = test::Terminal::controlling;
  Program run(ranks_of(2, listener), setup);
  ASSERT_TRUE(run.wait_for_output("up\r\n", 2));
  run.signal(SIGSTOP);  // so that what it passes on does not melt into what the terminal sent
  run.type("\x03");
  ASSERT_TRUE(run.wait_for_output("got-INT\r\n", 2));
  run.signal(SIGCONT);
  run.signal(SIGUSR1);
  ASSERT_TRUE(run.wait_for_output("got-USR1\r\n", 2));  // behind whatever came twice
  run.signal(SIGTERM);
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(test::occurrences(run.output(), "got-INT"), 2U);
}

TEST(Launcher, SurvivorsMaySayWhatTheyLost) {
  Program run(ranks_of(2, "test $STRATA_RANK = 1 && exit 5; sleep 0.8; echo I lost rank 1; exit 6"), clean());
  EXPECT_EQ(run.wait(), 5);
  EXPECT_THAT(run.output(), HasSubstr("I lost rank 1"));
}

TEST(Launcher, SurvivorsThatStayAreAskedThenKilled) {
  const Stopwatch watch;
  Program polite(ranks_of(2, "test $STRATA_RANK = 1 && exit 5; trap 'echo asked; exit 0' TERM; sleep 20 & wait"),
                 clean());
  EXPECT_EQ(polite.wait(), 5);
  EXPECT_THAT(polite.output(), HasSubstr("asked"));
  EXPECT_GT(watch.seconds(), 1.4);

  const std::string word = test::fresh_word();
  const Stopwatch stubborn_watch;
  Program stubborn(ranks_of(3, "test $STRATA_RANK = 1 && exit 5; trap '' TERM; while :; do sleep 1; done", word),
                   clean());
  EXPECT_EQ(stubborn.wait(), 5);
  EXPECT_LT(stubborn_watch.seconds(), 3.5);
  EXPECT_THAT(test::processes_with(word), IsEmpty());
}

TEST(Launcher, FrozenSurvivorIsKilledToo) {
  const std::string word = test::fresh_word();
  const Stopwatch watch;
  Program run(ranks_of(2, "test $STRATA_RANK = 1 && exit 5; trap '' TERM; kill -STOP $$; sleep 20", word), clean());
  EXPECT_EQ(run.wait(), 5);
  EXPECT_LT(watch.seconds(), 3.5);
  EXPECT_THAT(test::processes_with(word), IsEmpty());
}

TEST(Launcher, WhatRanksLeaveBehindIsEnded) {
  const std::string word = test::fresh_word();
  Program run(ranks_of(2, "setsid sh -c 'sleep 20; true' $0 > /dev/null & exit 0", word), clean());
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(test::processes_with(word), IsEmpty());
}

TEST(Launcher, WritersBehindARankMayFinish) {
  Program run(ranks_of(1, "(sleep 0.2; echo last words) & exit 0"), clean());
  EXPECT_EQ(run.wait(), 0);
  EXPECT_THAT(run.output(), HasSubstr("last words"));
}

// Killed without a chance to do anything: ranks, what they started, even in sessions of their own, and the guardian go.
TEST(Launcher, KilledLauncherLeavesNothing) {
  const std::string word = test::fresh_word();
  const std::string script = "setsid sh -c 'echo up; sleep 20; true' $0 & trap '' TERM INT HUP; sleep 20; true";
  Program run(ranks_of(3, script, word), clean());
  ASSERT_TRUE(run.wait_for_output("up\n", 3));
  EXPECT_GE(test::processes_with(word).size(), 7U);
  run.signal(SIGKILL);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
  EXPECT_TRUE(test::wait_until_none_with(word, 2)) << test::processes_with(word).size() << " left";
}

TEST(Launcher, KilledAtAnyMomentLeavesNothing) {
  for (int delay_us = 0; delay_us < 12'000; delay_us += 400) {
    const std::string word = test::fresh_word();
    Program run(ranks_of(4, "sleep 20 & wait; true", word), clean());
    ::usleep(static_cast<useconds_t>(delay_us));  // the moment is the point
    run.signal(SIGKILL);
    run.wait();
    ASSERT_TRUE(test::wait_until_none_with(word, 2)) << "killed after " << delay_us << " us";
  }
}

TEST(Launcher, EndedByASignalLeavesNothing) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string word = test::fresh_word();
    Program run(ranks_of(2, "sleep 20 & echo up; wait", word), clean());
    ASSERT_TRUE(run.wait_for_output("up\n", 2));
    run.signal(number);
    EXPECT_EQ(run.wait(5), 128 + number);
    EXPECT_THAT(test::processes_with(word), IsEmpty());
  }
}

}  // namespace
}  // namespace strata
