// `strata plan` says what make_plan says, and refuses what it cannot mean.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <strata/strata.h>

#include "support/fresh_folder.h"
#include "support/process.h"

namespace strata {
namespace {

using test::Program;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

struct Answer {
  int status = 0;
  std::string output;
  std::string errors;
};

Answer ask(std::vector<std::string> words) {
  words.insert(words.begin(), {STRATA_BIN "/strata", "plan"});
  Program program(words, {.environment = {"STRATA_OPTIONS"}, .input = {}});
  const int status = program.wait(60);
  return {status, program.output(), program.errors()};
}

std::vector<Unit> even_units(int count, std::int64_t element_count) {
  std::vector<Unit> units;
  for (int i = 0; i < count; ++i) {
    Tensor tensor;
    tensor.name = fmt::format("w{}", i);
    tensor.shape = {element_count};
    units.push_back({.name = fmt::format("u{}", i), .tensors = {tensor}});
  }
  return units;
}

TEST(PlanCommand, PrintsThePlanOfTheSameModel) {
  Machine machine;
  machine.device_free_bytes = machine.host_free_bytes = std::uint64_t{1} << 40;
  machine.core_count = 32;
  machine.local_rank_count = 8;
  Options options;
  options.stage = 2;
  options.leases = 3;
  const Plan plan = make_plan(even_units(32, 7'000'000'000 / 32), *adamw(), 8, options, machine);
  const Answer answer = ask({"--params", "7B", "--units", "32", "--world", "8", "--free-memory", "8TiB", "--cores",
                             "32", "--strata-stage", "2", "--strata-leases=3"});
  EXPECT_EQ(answer.status, 0) << answer.errors;
  EXPECT_THAT(answer.output, HasSubstr(plan.table()));
  EXPECT_THAT(answer.output, HasSubstr("32 units over 8 ranks at stage 2"));
  EXPECT_THAT(answer.output, HasSubstr("the 8 ranks of a host together: device " +
                                       format_bytes(8 * plan.total_bytes(TierKind::device))));
}

TEST(PlanCommand, TheDiskTakesWhatMemoryDoesNot) {
  const test::FreshFolder folder;
  const Answer answer =
      ask({"--params=1.5B", "--units=24", "--free-memory=64GiB", "--free-disk=1TiB", "--strata-nvme-dir", folder.path(),
           "--strata-device-memory=1500MiB", "--strata-host-memory=1GiB"});
  EXPECT_EQ(answer.status, 0) << answer.errors;
  EXPECT_THAT(answer.output, AllOf(HasSubstr("nvme    private"), HasSubstr("record slots")));
  EXPECT_TRUE(folder.is_empty());
}

TEST(PlanCommand, AnEmbeddingIsAUnitOfItsOwn) {
  const Answer answer = ask({"--free-memory=8GiB", "--params=100M", "--units=10", "--embedding=30M"});
  EXPECT_EQ(answer.status, 0) << answer.errors;
  EXPECT_THAT(answer.output, AllOf(HasSubstr("11 units"), HasSubstr("100000000 parameters")));
}

TEST(PlanCommand, FewerMomentsAreFewerBytes) {
  const auto line_of = [](const Answer& answer, const std::string& what) {
    const std::size_t at = answer.output.find(what);
    return at == std::string::npos ? answer.errors : answer.output.substr(at, answer.output.find('\n', at) - at);
  };
  EXPECT_THAT(line_of(ask({"--free-memory=64GiB", "--params=1024M", "--units=2"}), "master"), HasSubstr("11.4 GiB"));
  EXPECT_THAT(line_of(ask({"--free-memory=64GiB", "--params=1024M", "--units=2", "--moments=1"}), "master"),
              HasSubstr("7.63 GiB"));
  EXPECT_THAT(line_of(ask({"--free-memory=64GiB", "--params=1024M", "--units=2", "--moments=0"}), "master"),
              HasSubstr("3.81 GiB"));
}

TEST(PlanCommand, WhatDoesNotFitIsRefusedWithTheRemedy) {
  const Answer answer = ask({"--params=7B", "--world=2", "--free-memory=16GiB"});
  EXPECT_EQ(answer.status, 1);
  EXPECT_THAT(answer.errors, AllOf(HasSubstr("--strata-device-memory"), HasSubstr("at least"), HasSubstr("GiB"),
                                   HasSubstr("master and moments")));
}

TEST(PlanCommand, ForecastsAStep) {
  const Answer answer = ask({"--params=10M", "--units=8", "--probe", "--arithmetic=2", "--micro-batches=3"});
  EXPECT_EQ(answer.status, 0) << answer.errors;
  const std::string before = "a step on this host: about ";
  const std::size_t at = answer.output.find(before);
  ASSERT_NE(at, std::string::npos) << answer.output;
  EXPECT_NEAR(std::stod(answer.output.substr(at + before.size())), 6, 0.6);
  EXPECT_THAT(answer.output, HasSubstr("6 s of it arithmetic"));
}

TEST(PlanCommand, WrongWordsAreRefusedWithWhatWouldBeRight) {
  const std::vector<std::vector<std::string>> cases = {
      {"--params is required"},
      {"write it as 124000000, 350M, 7B or 1.5T", "--params", "7X"},
      {"is no count", "--params", "-3"},
      {"is no count", "--params", "1.5"},
      {"is no count", "--params", "9999T"},
      {"write bytes as", "--params", "7B", "--free-memory", "many"},
      {"--world 6 is no multiple of --local-ranks 4", "--params=1B", "--world=6", "--local-ranks=4"},
      {"too few for 200 units", "--params", "100", "--units", "200"},
      {"the nearest is --strata-stage", "--params=1B", "--strata-stge=2"},
      {"--strata-optimizer nvme is not possible", "--params=1B", "--strata-optimizer=nvme"},
      {"--arithmetic requires --probe", "--params=1B", "--arithmetic=1"},
      {"at most 64 ranks", "--params=1B", "--world=65", "--probe"},
      {"--moments", "--params=1B", "--moments=3"}};
  for (const auto& row : cases) {
    const Answer answer = ask({row.begin() + 1, row.end()});
    EXPECT_EQ(answer.status, 2) << row[0] << answer.output;
    EXPECT_THAT(answer.errors, HasSubstr(row[0]));
    EXPECT_THAT(answer.output, IsEmpty());
  }
}

TEST(PlanCommand, HelpNamesItsOptions) {
  const Answer answer = ask({"--help"});
  EXPECT_EQ(answer.status, 0);
  EXPECT_THAT(answer.output,
              AllOf(HasSubstr("--params"), HasSubstr("--moments"), HasSubstr("--free-disk"), HasSubstr("Exit status")));
  const Answer engine = ask({"--strata-help"});
  EXPECT_EQ(engine.status, 0);
  EXPECT_THAT(engine.output, HasSubstr("--strata-nvme-dir DIRS"));
}

}  // namespace
}  // namespace strata
