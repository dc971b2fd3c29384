// The `llm` program as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.h"

namespace llm::test {
namespace {

using nlohmann::json;
using strata::test::Program;
using testing::HasSubstr;

struct Result {
  int status;
  std::string output, errors;
};

class LlmProgram : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("llm_program_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream text(folder_ / "text");
    for (int i = 0; i < 500; ++i) text << "verse " << i * i << " of a text that is easy to learn\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Result run(std::vector<std::string> words) {
    strata::test::ProgramSetup setup;
    setup.environment = {"OMP_NUM_THREADS=1"};
    Program program(words, setup);
    const int status = program.wait(60);
    return {status, program.output(), program.errors()};
  }
  std::vector<std::string> train_words(int ranks, const std::vector<std::string>& more) {
    std::vector<std::string> words;
    if (ranks > 1) words = {STRATA_BIN "/strata", "run", "-n", std::to_string(ranks), "--"};
    for (const char* word : {STRATA_BIN "/llm", "train", "--preset", "tiny", "--batch", "2", "--seq", "32", "--steps",
                             "6", "--state-hash", "--sample", "8", "--data"}) {
      words.emplace_back(word);
    }
    words.push_back((folder_ / "text").string());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Result train(int ranks, const std::vector<std::string>& more = {}) { return run(train_words(ranks, more)); }

  static std::string state(const Result& result) {
    EXPECT_EQ(result.status, 0) << result.errors;
    const std::size_t at = result.output.rfind("state ");
    EXPECT_NE(at, std::string::npos) << result.output;
    return at == std::string::npos ? "" : result.output.substr(at);
  }

  std::filesystem::path folder_;
};

TEST_F(LlmProgram, StateIsTheLastLineAndTheSameAtEveryStage) {
  const std::string plain = state(train(2, {"--strata-stage", "0", "--accumulate", "2"}));
  EXPECT_THAT(plain, testing::MatchesRegex("state [0-9a-f]{16}\n"));
  EXPECT_EQ(state(train(2, {"--strata-stage", "3", "--accumulate", "2"})), plain);
  EXPECT_NE(state(train(2, {"--strata-stage", "3", "--accumulate", "2", "--seed", "2"})), plain);
  EXPECT_NE(state(train(1, {"--accumulate", "2"})), plain);
}

TEST_F(LlmProgram, RecomputingChangesNoBit) {
  const std::map<std::string, std::vector<std::string>> homes = {
      {"f32", {"host"}}, {"bf16", {"device", "nvme"}}, {"f16", {"nvme"}}};
  for (const auto& [dtype, tried] : homes) {
    const std::vector<std::string> words = {"--strata-dtype", dtype, "--accumulate", "2"};
    const std::string plain = state(train(2, words));
    for (const std::string& home : tried) {
      std::vector<std::string> more = words;
      more.insert(more.end(), {"--recompute", "--strata-activations", home, "--strata-nvme-dir", folder_.string()});
      EXPECT_EQ(state(train(2, more)), plain) << dtype << " " << home;
    }
  }
}

TEST_F(LlmProgram, LogHasAnObjectAStepAndAnEvaluation) {
  const std::string log = (folder_ / "log").string();
  const Result result = train(2, {"--log", log, "--eval-every", "3"});
  ASSERT_EQ(result.status, 0) << result.errors;
  std::ifstream stream(log);
  std::vector<json> steps, evaluations;
  for (std::string line; std::getline(stream, line);) {
    const json row = json::parse(line);
    (row.contains("eval_loss") ? evaluations : steps).push_back(row);
  }
  ASSERT_EQ(steps.size(), 6u);
  ASSERT_EQ(evaluations.size(), 2u);
  for (const char* key : {"step", "loss", "grad_norm", "applied", "lr", "tokens", "seconds", "predicted_seconds",
                          "tokens_per_s", "device_bytes", "host_bytes", "nvme_bytes", "waits_s"}) {
    EXPECT_TRUE(steps[0].contains(key)) << key;
  }
  EXPECT_EQ(steps[0]["tokens"], 2 * 2 * 32);
  EXPECT_NEAR(steps[0]["loss"].get<double>(), std::log(256.0), 0.2) << "nothing is known at first";
  EXPECT_LT(steps[5]["loss"], steps[0]["loss"]);
  EXPECT_EQ(steps[0]["predicted_seconds"], steps[5]["predicted_seconds"]);
  EXPECT_GT(steps[0]["predicted_seconds"], 0);
  EXPECT_THAT(result.output, HasSubstr("evaluation loss "));
  EXPECT_THAT(result.output, HasSubstr("sample:"));
  EXPECT_THAT(result.output, HasSubstr("master and moments"));
}

TEST_F(LlmProgram, LogAndTableSayWhatTheDiskDid) {
  const std::string log = (folder_ / "log").string();
  const Result result = train(1, {"--log", log, "--strata-optimizer", "nvme", "--strata-nvme-dir", (folder_).string()});
  EXPECT_EQ(state(result), state(train(1)));
  EXPECT_THAT(result.output, HasSubstr("compute waited "));
  EXPECT_THAT(result.output, testing::ContainsRegex("nvme +[0-9.]+ [KM]iB +[0-9.]+ [KM]iB"));
  std::ifstream stream(log);
  std::string line;
  ASSERT_TRUE(std::getline(stream, line));
  const json row = json::parse(line);
  EXPECT_GT(row["nvme_bytes"], 0);
  EXPECT_GT(row["host_bytes"], 0);
  EXPECT_GT(row["nvme_traffic"]["stored_bytes"], 0);
  for (const char* key : {"gather", "gradient_slot", "reduce", "update", "activations", "peer", "host", "nvme"}) {
    EXPECT_TRUE(row["waits_s"].contains(key)) << key;
  }
}

TEST_F(LlmProgram, TrainsWithEveryDtypeAndATiedHead) {
  std::ofstream(folder_ / "config.json")
      << R"({"vocab_size": 256, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
             "num_attention_heads": 2, "tie_word_embeddings": true})";
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    const Result result = run({STRATA_BIN "/llm", "train", "--config", (folder_ / "config.json").string(), "--data",
                               (folder_ / "text").string(), "--seq", "32", "--steps", "30", "--lr", "0.01", "--log",
                               (folder_ / "log").string(), "--sample", "0", "--strata-dtype", dtype});
    ASSERT_EQ(result.status, 0) << result.errors;
    json row, last;
    std::ifstream stream(folder_ / "log");
    for (std::string line; std::getline(stream, line);) {
      row = json::parse(line);
      if (row.contains("loss")) last = row;
    }
    EXPECT_LT(last["loss"].get<double>(), 4.5) << dtype;
  }
}

TEST_F(LlmProgram, PlanAndHelpNeedNoTraining) {
  const Result plan = train(1, {"--strata-plan"});
  EXPECT_EQ(plan.status, 0);
  EXPECT_THAT(plan.output, HasSubstr("master and moments"));
  EXPECT_THAT(plan.output, testing::ContainsRegex("a step should take [0-9.e-]+ s"));
  EXPECT_THAT(plan.output, testing::Not(HasSubstr("state ")));
  const Result disk = train(2, {"--strata-plan", "--strata-optimizer", "nvme", "--strata-nvme-dir", folder_.string()});
  EXPECT_EQ(disk.status, 0) << disk.errors;
  EXPECT_THAT(disk.output, testing::ContainsRegex("master and moments +nvme"));
  const Result help = run({STRATA_BIN "/llm", "train", "--strata-help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, HasSubstr("--strata-stage"));
  EXPECT_EQ(run({STRATA_BIN "/llm", "train", "--help"}).status, 0);
}

TEST_F(LlmProgram, WrongInputIsRefusedInOneMessage) {
  const auto refused = [&](const std::vector<std::string>& words, const std::string& named) {
    const Result result = run(words);
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr(named));
  };
  refused(train_words(1, {"--strata-stag", "1"}), "--strata-stage");
  refused(train_words(1, {"--preset", "huge"}), "huge");
  refused(train_words(1, {"--nonsense"}), "--nonsense");
  refused(train_words(1, {"--seq", "100000"}), "200002");
  refused(train_words(1, {"--log", "/nonexistent/log"}), "/nonexistent/log");
  refused(train_words(1, {"--strata-device-memory", "16KiB"}), "out_of_budget");
  refused(train_words(1, {"--recompute", "--strata-activation-memory", "1KiB"}), "at least 512 KiB");
  refused(train_words(1, {"--products", "bf16", "--strata-dtype", "f32"}), "bf16");
  refused({STRATA_BIN "/llm", "train", "--data", "/nonexistent"}, "/nonexistent");
  refused({STRATA_BIN "/llm", "generate"}, "--model");
  refused({STRATA_BIN "/llm"}, "subcommand");
}

TEST_F(LlmProgram, GeneratesFromAModelOfAnotherMaker) {
  const std::string stories = STRATA_TEST_DATA "/stories260k/";
  const Result result = run({STRATA_BIN "/llm", "generate", "--stories", stories + "stories260K.bin", "--tokenizer",
                             stories + "tok512.bin", "--tokens", "20", "--greedy"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, testing::StartsWith("Once upon a time, there was a little girl named Lily."));
  const Result ids = run({STRATA_BIN "/llm", "generate", "--model", STRATA_TEST_DATA "/decoder_mha_tied",
                          "--prompt-ids", "1,2,3", "--tokens", "4"});
  EXPECT_EQ(ids.status, 0) << ids.errors;
  EXPECT_THAT(ids.output, testing::StartsWith("1 2 3 "));
}

}  // namespace
}  // namespace llm::test
