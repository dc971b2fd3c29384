#include "run_totals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace llm::test {
namespace {

using testing::HasSubstr;

TEST(RunTotals, SumWaitsAndShowTheTiersThatWereUsed) {
  RunTotals totals;
  EXPECT_EQ(totals.table(), "");
  strata::StepReport report;
  report.waits.gather_s = 1;
  report.waits.update_s = 2;
  report.waits.activations_s = 1;
  report.waits.peer_s = 0.5;
  totals.add(report, 10);
  EXPECT_THAT(totals.table(), HasSubstr("compute waited 4.00 s of 10.00 s in 1 steps (40.0 %)"));
  EXPECT_THAT(totals.table(), testing::Not(HasSubstr("nvme")));
  report.nvme = {1'000'000'000, 2'000'000'000, 1.5};
  report.waits.nvme_s = 0.25;
  totals.add(report, 10);
  totals.add(report, 10);
  EXPECT_THAT(totals.table(), HasSubstr("compute waited 12.00 s of 30.00 s in 3 steps"));
  EXPECT_THAT(totals.table(), HasSubstr("peers 1.50 s"));
  EXPECT_THAT(totals.table(), testing::ContainsRegex("nvme .*3.00 s .*2.00 GB/s .*0.50 s"));
  EXPECT_THAT(totals.table(), testing::Not(HasSubstr("host")));
}

}  // namespace
}  // namespace llm::test
