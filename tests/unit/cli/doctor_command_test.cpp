#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "support/fresh_folder.h"
#include "support/process.h"

namespace strata {
namespace {

using test::Program;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Answer {
  int status = 0;
  std::string output;
  std::string errors;
};

Answer ask(std::vector<std::string> words) {
  words.insert(words.begin(), {STRATA_BIN "/strata", "doctor"});
  Program program(words, {.environment = {"STRATA_OPTIONS"}, .input = {}});
  const int status = program.wait(60);
  return {status, program.output(), program.errors()};
}

TEST(DoctorCommand, SaysWhatTheHostOffers) {
  const Answer answer = ask({});
  EXPECT_EQ(answer.status, 0) << answer.errors;
  EXPECT_THAT(
      answer.output,
      AllOf(ContainsRegex("cores +[0-9]+ for this process"), ContainsRegex("available memory +[0-9.]+ [KMGT]iB"),
            ContainsRegex("control group +(no limit|limit [0-9.]+)"), ContainsRegex("pages +4 KiB"),
            ContainsRegex("transparent huge pages +mode [a-z]+"), ContainsRegex("locked memory +(no|at most)"),
            ContainsRegex("io_uring\n +usable +(yes|no: .+)"), ContainsRegex("update +[0-9.]+ GB/s"),
            ContainsRegex("disk +not measured: give a directory with --strata-nvme-dir")));
}

TEST(DoctorCommand, TriesTheDirectoryAndLeavesNothing) {
  const test::FreshFolder folder;
  const Answer answer = ask({"--strata-nvme-dir", folder.path(), "--ranks", "2"});
  EXPECT_EQ(answer.status, 0) << answer.errors;
  EXPECT_THAT(answer.output, AllOf(HasSubstr("directory " + folder.path()), ContainsRegex("file system +[^\n]+ free"),
                                   ContainsRegex("direct I/O +(yes|no)"), ContainsRegex("alignment +[^\n]+"),
                                   ContainsRegex("driven by +nvme \\((io_uring|threads), (direct|buffered)\\)"),
                                   HasSubstr("each of 2 ranks at once"), ContainsRegex("disk read +[0-9.]+ GB/s"),
                                   ContainsRegex("disk both at once +[0-9.]+ GB/s")));
  EXPECT_TRUE(folder.is_empty());
}

TEST(DoctorCommand, HonoursTheChosenBackend) {
  const test::FreshFolder folder;
  EXPECT_THAT(ask({"--strata-nvme-dir", folder.path(), "--strata-io=threads"}).output,
              ContainsRegex("driven by +nvme \\(threads, "));
}

TEST(DoctorCommand, ADirectoryThatCannotBeUsedIsNamedWithTheReason) {
  const test::FreshFolder folder;
  const Answer missing = ask({"--strata-nvme-dir=" + folder.path("none")});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.output, AllOf(ContainsRegex("refused +[^\n]*" + folder.path("none")),
                                    ContainsRegex("update +[0-9.]+ GB/s"), Not(HasSubstr("disk read"))));
  ::chmod(folder.path().c_str(), 0777);
  const Answer open = ask({"--strata-nvme-dir=" + folder.path()});
  EXPECT_EQ(open.status, 1);
  EXPECT_THAT(open.output, ContainsRegex("refused +[^\n]*0777[^\n]*chmod 700"));
}

TEST(DoctorCommand, WrongWordsAreRefused) {
  const Answer ranks = ask({"--ranks=0"});
  EXPECT_EQ(ranks.status, 2);
  EXPECT_THAT(ranks.errors, HasSubstr("--ranks"));
  const Answer typo = ask({"--strata-nvme-dirs=x"});
  EXPECT_EQ(typo.status, 2);
  EXPECT_THAT(typo.errors, HasSubstr("the nearest is --strata-nvme-dir"));
}

}  // namespace
}  // namespace strata
