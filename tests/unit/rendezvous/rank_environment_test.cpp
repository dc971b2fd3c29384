#include "sharding/rendezvous/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <strata/error.h>

namespace strata::sharding {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;
using testing::AllOf;
using testing::HasSubstr;

RankEnvironment read(const Variables& variables) {
  return read_rank_environment([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::string refusal(const Variables& variables) {
  try {
    read(variables);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

const Variables own = {
    {"STRATA_RANK", "2"}, {"STRATA_WORLD_SIZE", "4"}, {"STRATA_LOCAL_RANK", "2"}, {"STRATA_JOB", "blue"}};
const Variables torchrun = {{"RANK", "1"},
                            {"WORLD_SIZE", "3"},
                            {"LOCAL_RANK", "1"},
                            {"LOCAL_WORLD_SIZE", "3"},
                            {"MASTER_PORT", "29512"},
                            {"TORCHELASTIC_RUN_ID", "run7"}};
const Variables open_mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                            {"PMIX_NAMESPACE", "3126460417"}};
const Variables slurm = {{"SLURM_PROCID", "1"},  {"SLURM_NTASKS", "2"},  {"SLURM_LOCALID", "1"},
                         {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NNODES", "1"}};

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

TEST(RankEnvironment, NothingSetIsOneRank) {
  const RankEnvironment found = read({});
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.size, 1);
  EXPECT_EQ(found.launcher, "none");
}

TEST(RankEnvironment, ReadsEachLauncher) {
  const RankEnvironment strata = read(own);
  EXPECT_EQ(strata.launcher, "strata");
  EXPECT_EQ(strata.rank, 2);
  EXPECT_EQ(strata.size, 4);
  EXPECT_EQ(strata.local_rank, 2);
  EXPECT_EQ(strata.local_size, 4);
  EXPECT_EQ(strata.job, "blue");

  const RankEnvironment torch = read(torchrun);
  EXPECT_EQ(torch.launcher, "torchrun");
  EXPECT_EQ(torch.rank, 1);
  EXPECT_EQ(torch.size, 3);
  EXPECT_EQ(torch.port, 29512);
  EXPECT_THAT(torch.job, HasSubstr("run7"));

  const RankEnvironment mpi = read(open_mpi);
  EXPECT_EQ(mpi.launcher, "Open MPI");
  EXPECT_EQ(mpi.rank, 3);
  EXPECT_EQ(mpi.size, 4);
  EXPECT_THAT(mpi.job, HasSubstr("3126460417"));

  const RankEnvironment step = read(slurm);
  EXPECT_EQ(step.launcher, "Slurm");
  EXPECT_EQ(step.rank, 1);
  EXPECT_EQ(step.size, 2);
  EXPECT_THAT(step.job, HasSubstr("77.0"));
}

TEST(RankEnvironment, OwnVariablesWin) {
  Variables both = own;
  both.insert(torchrun.begin(), torchrun.end());
  both.insert(slurm.begin(), slurm.end());
  EXPECT_EQ(read(both).launcher, "strata");
  EXPECT_EQ(read(both).rank, 2);
}

TEST(RankEnvironment, RestartedTorchrunIsAnotherJob) {
  EXPECT_NE(read(with(torchrun, "TORCHELASTIC_RESTART_COUNT", "1")).job, read(torchrun).job);
}

TEST(RankEnvironment, NamesTheVariableThatIsNoNumber) {
  EXPECT_THAT(refusal(with(own, "STRATA_RANK", "two")),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("STRATA_RANK='two'")));
  EXPECT_THAT(refusal(with(own, "STRATA_RANK", "-1")), HasSubstr("STRATA_RANK='-1'"));
  EXPECT_THAT(refusal(with(own, "STRATA_RANK", "1x")), HasSubstr("STRATA_RANK='1x'"));
  EXPECT_THAT(refusal(with(own, "STRATA_WORLD_SIZE", "0")), HasSubstr("STRATA_WORLD_SIZE='0'"));
  EXPECT_THAT(refusal(with(own, "STRATA_WORLD_SIZE", "5000")), HasSubstr("from 1 to 4096"));
  EXPECT_THAT(refusal(with(torchrun, "MASTER_PORT", "70000")), HasSubstr("MASTER_PORT='70000'"));
  EXPECT_THAT(refusal(with(open_mpi, "OMPI_COMM_WORLD_SIZE", "99999999999")), HasSubstr("99999999999"));
}

TEST(RankEnvironment, NamesTheMissingVariable) {
  EXPECT_THAT(refusal(without(own, "STRATA_WORLD_SIZE")),
              AllOf(HasSubstr("STRATA_RANK='2'"), HasSubstr("STRATA_WORLD_SIZE is not")));
  EXPECT_THAT(refusal(without(own, "STRATA_RANK")), HasSubstr("STRATA_RANK is not"));
  EXPECT_THAT(refusal(without(own, "STRATA_JOB")), HasSubstr("STRATA_JOB is not"));
  EXPECT_THAT(refusal(with(own, "STRATA_JOB", "")), HasSubstr("STRATA_JOB is not"));
  EXPECT_THAT(refusal(without(torchrun, "RANK")), HasSubstr("RANK is not"));
  EXPECT_THAT(refusal(without(without(torchrun, "MASTER_PORT"), "TORCHELASTIC_RUN_ID")), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(refusal(without(open_mpi, "PMIX_NAMESPACE")), HasSubstr("PMIX_NAMESPACE"));
  EXPECT_THAT(refusal(without(slurm, "SLURM_JOB_ID")), HasSubstr("SLURM_JOB_ID"));
}

TEST(RankEnvironment, RefusesContradictions) {
  EXPECT_THAT(refusal(with(own, "STRATA_RANK", "4")), HasSubstr("STRATA_RANK=4 is no rank of STRATA_WORLD_SIZE=4"));
  EXPECT_THAT(refusal(with(own, "STRATA_LOCAL_RANK", "1")), HasSubstr("STRATA_LOCAL_RANK=1 contradicts STRATA_RANK=2"));
  EXPECT_THAT(refusal(with(torchrun, "LOCAL_WORLD_SIZE", "4")),
              HasSubstr("LOCAL_WORLD_SIZE=4 is more than WORLD_SIZE=3"));
}

TEST(RankEnvironment, SeveralHostsAreUnsupported) {
  EXPECT_THAT(refusal(with(torchrun, "LOCAL_WORLD_SIZE", "2")), AllOf(HasSubstr("unsupported"), HasSubstr("one host")));
  EXPECT_THAT(refusal(with(open_mpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "2")), HasSubstr("unsupported"));
  EXPECT_THAT(refusal(with(slurm, "SLURM_NNODES", "2")), AllOf(HasSubstr("unsupported"), HasSubstr("--nodes=1")));
}

TEST(RankEnvironment, StepOnOneHostOfALargerAllocation) {
  EXPECT_EQ(read(with(with(slurm, "SLURM_NNODES", "4"), "SLURM_STEP_NUM_NODES", "1")).size, 2);
  EXPECT_EQ(read(with(with(slurm, "SLURM_NTASKS", "16"), "SLURM_STEP_NUM_TASKS", "2")).size, 2);
}

TEST(RankEnvironment, OneRankNeedsNoName) {
  EXPECT_EQ(read({{"STRATA_RANK", "0"}, {"STRATA_WORLD_SIZE", "1"}}).size, 1);
  EXPECT_EQ(read({{"WORLD_SIZE", "1"}}).size, 1);
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}).size, 1);
}

TEST(RankEnvironment, AllocationWithoutAStepIsOneRank) {
  EXPECT_EQ(read({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "9"}, {"SLURM_NNODES", "2"}}).size, 1);  // salloc's shell
  const Variables first = with(with(slurm, "SLURM_PROCID", "0"), "SLURM_LOCALID", "0");
  EXPECT_EQ(read(first).size, 2);
  EXPECT_EQ(read(without(first, "SLURM_STEP_ID")).size, 1);             // a batch script
  EXPECT_EQ(read(with(first, "SLURM_STEP_ID", "4294967291")).size, 1);  // the same, called a step
  EXPECT_EQ(read(with(first, "SLURM_NTASKS", "1")).size, 1);
  EXPECT_THAT(refusal(without(slurm, "SLURM_STEP_ID")), HasSubstr("SLURM_STEP_ID is not"));  // rank 1 of nothing
}

}  // namespace
}  // namespace strata::sharding
