#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/options/parsed.h"

namespace strata {
namespace {

using ::testing::AllOf;
using testing::Environment;
using ::testing::HasSubstr;
using testing::parse;
using testing::refusal;

TEST(Combinations, TheDiskNeedsADirectory) {
  for (const std::string kind : {"params", "optimizer", "gradients", "activations"}) {
    const std::string flag = "--strata-" + kind;
    EXPECT_THAT(refusal({flag, "nvme"}), AllOf(HasSubstr(flag + " nvme"), HasSubstr("--strata-nvme-dir"))) << kind;
    EXPECT_NO_THROW(parse({flag, "nvme", "--strata-nvme-dir", "d"})) << kind;
    for (const char* home : {"auto", "device", "host"}) EXPECT_NO_THROW(parse({flag, home})) << kind << home;
  }
  EXPECT_THAT(refusal({"--strata-nvme-memory=1GiB"}),
              AllOf(HasSubstr("--strata-nvme-memory 1073741824"), HasSubstr("--strata-nvme-dir")));
  EXPECT_NO_THROW(parse({"--strata-nvme-memory=1GiB", "--strata-nvme-dir=d"}));
}

TEST(Combinations, OnlyStageThreeKeepsParametersElsewhere) {
  for (const std::string stage : {"0", "1", "2"}) {
    for (const std::string home : {"host", "nvme"}) {
      EXPECT_THAT(refusal({"--strata-params", home, "--strata-stage", stage, "--strata-nvme-dir", "d"}),
                  AllOf(HasSubstr("--strata-params " + home), HasSubstr("--strata-stage " + stage),
                        HasSubstr("use --strata-stage 3")));
    }
    EXPECT_NO_THROW(parse({"--strata-params", "device", "--strata-stage", stage}));
    EXPECT_NO_THROW(parse({"--strata-optimizer", "nvme", "--strata-stage", stage, "--strata-nvme-dir", "d"}));
  }
}

TEST(Combinations, WholeAccumulatorsStayWherePeersReadThem) {
  for (const std::string home : {"host", "nvme"}) {
    const std::vector<std::string> words = {"--strata-gradients", home, "--strata-nvme-dir", "d"};
    const auto with = [&](const std::string& more) {
      std::vector<std::string> all = words;
      all.push_back(more);
      return all;
    };
    EXPECT_THAT(refusal(with("--strata-stage=0")),
                AllOf(HasSubstr("--strata-gradients " + home), HasSubstr("use --strata-stage 1, 2 or 3")));
    EXPECT_THAT(refusal(with("--strata-reduce=step")),
                AllOf(HasSubstr("--strata-gradients " + home), HasSubstr("use --strata-reduce micro_batch")));
    for (const char* stage : {"1", "2", "3"}) EXPECT_NO_THROW(parse(with(std::string("--strata-stage=") + stage)));
  }
}

TEST(Combinations, ABlockFitsIntoWhatIsInFlight) {
  EXPECT_NO_THROW(parse({"--strata-io-block=16MiB", "--strata-io-inflight=16MiB"}));
  EXPECT_THAT(refusal({"--strata-io-block=16MiB"}),
              AllOf(HasSubstr("--strata-io-inflight of 8 MiB"), HasSubstr("--strata-io-block of 16 MiB"),
                    HasSubstr("raise --strata-io-inflight")));
}

TEST(Combinations, AreJudgedOverAllSourcesAndForTheProgram) {
  const Environment environment("optimizer=nvme");
  EXPECT_THAT(refusal({}), HasSubstr("--strata-optimizer nvme"));
  EXPECT_EQ(parse({"--strata-nvme-dir=d"}).options.optimizer, Home::nvme);
  EXPECT_EQ(parse({"--strata-optimizer=device"}).options.optimizer, Home::device);
  Options options;
  options.params = Home::host;
  EXPECT_NO_THROW(validate(options));
  options.stage = 2;
  EXPECT_THROW(validate(options), Error);
}

}  // namespace
}  // namespace strata
