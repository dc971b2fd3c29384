#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "engine/options/table.h"
#include "unit/options/parsed.h"

namespace strata {
namespace {

using ::testing::AllOf;
using testing::Environment;
using ::testing::HasSubstr;
using testing::parse;
using testing::refusal;

class Config : public ::testing::Test {
 protected:
  void SetUp() override { path_ = testing::own_path(::testing::UnitTest::GetInstance()->current_test_info()->name()); }
  void TearDown() override { std::filesystem::remove(path_); }

  Options read(const std::string& text) {
    write(text);
    return parse({"--strata-config", path_}).options;
  }
  std::string refused(const std::string& text) {
    write(text);
    return refusal({"--strata-config=" + path_});
  }
  void write(const std::string& text) { testing::write_new(path_, text); }

  std::string path_;
};

TEST_F(Config, SetsEveryOption) {
  const Options options = read(R"({"stage": 2, "device": "cpu", "dtype": "f32", "grad-dtype": "f16",
    "reduce-dtype": "bf16", "device-memory": "512MiB", "prefetch": 3, "leases": 4, "chunk": 8192, "threads": 5,
    "reduce": "step", "comm": "shm", "timeout": 1.5, "call-timeout": "2min", "progress": "on", "plan": true,
    "help": false, "host-memory": "2GiB", "nvme-memory": 1048576, "params": "device", "optimizer": "nvme",
    "gradients": "device", "activations": "host", "activation-memory": "1MiB", "split-master": false,
    "nvme-dir": "a,b", "io": "uring", "io-inflight": 33554432, "io-block": "4MiB"})");
  EXPECT_EQ(options.stage, 2);
  EXPECT_EQ(options.dtype, Dtype::f32);
  EXPECT_EQ(options.grad_dtype, Dtype::f16);
  EXPECT_EQ(options.reduce_dtype, Dtype::bf16);
  EXPECT_EQ(options.device_memory_bytes, 512ULL << 20);
  EXPECT_EQ(options.prefetch, 3U);
  EXPECT_EQ(options.leases, 4U);
  EXPECT_EQ(options.chunk, 8192U);
  EXPECT_EQ(options.threads, 5U);
  EXPECT_EQ(options.reduce, ReducePolicy::step);
  EXPECT_EQ(options.comm, CommunicatorKind::shm);
  EXPECT_EQ(options.timeout_s, 1.5);
  EXPECT_EQ(options.call_timeout_s, 120);
  EXPECT_EQ(options.progress, Progress::on);
  EXPECT_TRUE(options.plan_only);
  EXPECT_EQ(options.host_memory_bytes, 2ULL << 30);
  EXPECT_EQ(options.nvme_memory_bytes, 1ULL << 20);
  EXPECT_EQ(options.params, Home::device);
  EXPECT_EQ(options.optimizer, Home::nvme);
  EXPECT_EQ(options.gradients, Home::device);
  EXPECT_EQ(options.activations, Home::host);
  EXPECT_EQ(options.activation_memory_bytes, 1U << 20);
  EXPECT_FALSE(options.split_master);
  EXPECT_THAT(options.nvme_dirs, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(options.io, IoBackend::uring);
  EXPECT_EQ(options.io_inflight_bytes, 32U << 20);
  EXPECT_EQ(options.io_block_bytes, 4U << 20);
}

TEST_F(Config, EmptyObjectChangesNothing) { EXPECT_EQ(read("{}").stage, 3); }

TEST_F(Config, NumbersForSizesAndAutoForCounts) {
  const Options options = read(R"({"device-memory": 4096, "prefetch": "auto", "chunk": "auto", "threads": "auto"})");
  EXPECT_EQ(options.device_memory_bytes, 4096U);
  EXPECT_FALSE(options.prefetch || options.chunk || options.threads);
}

TEST_F(Config, LosesToEnvironmentAndFlags) {
  write(R"({"stage": 0, "leases": 9, "threads": 6})");
  const Environment environment("leases=8 stage=1 config=" + path_);
  const Options options = parse({"--strata-stage=2"}).options;
  EXPECT_EQ(options.stage, 2);
  EXPECT_EQ(options.leases, 8U);
  EXPECT_EQ(options.threads, 6U);
}

TEST_F(Config, IllegalValuesNameKeyPlaceAndWhatIsLegal) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"stage", "-1"},
                                                                  {"stage", "18446744073709551616"},
                                                                  {"stage", "2.0"},
                                                                  {"prefetch", "-1"},
                                                                  {"prefetch", "1e3"},
                                                                  {"leases", "18446744073709551615"},
                                                                  {"chunk", "3000"},
                                                                  {"device-memory", "-1"},
                                                                  {"device-memory", "1e3"},
                                                                  {"device-memory", "18446744073709551616"},
                                                                  {"timeout", "-1"},
                                                                  {"timeout", "1e300"},
                                                                  {"dtype", "\"f8\""},
                                                                  {"reduce", "\"never\""},
                                                                  {"device-memory", "\"many\""},
                                                                  {"host-memory", "\"lots\""},
                                                                  {"nvme-memory", "-5"},
                                                                  {"optimizer", "\"disk\""},
                                                                  {"io", "\"aio\""},
                                                                  {"io-block", "3000000"},
                                                                  {"io-inflight", "\"2GiB\""},
                                                                  {"nvme-dir", "\"a,,b\""},
                                                                  {"activation-memory", "\"auto\""}};
  for (const auto& [key, value] : cases) {
    const std::string text = refused("{\n\n  \"" + key + "\": " + value + "}");
    EXPECT_THAT(text, AllOf(HasSubstr("--strata-" + key), HasSubstr("key \"" + key + "\""), HasSubstr(path_ + ":3:3"),
                            HasSubstr(std::string(detail::find_option(key)->legal))))
        << value;
  }
}

TEST_F(Config, WrongTypesNameKeyAndType) {
  const std::vector<std::vector<std::string>> cases = {
      {"stage", "\"2\"", "the string"},    {"stage", "true", "a boolean"},    {"stage", "null", "null"},
      {"stage", "[2]", "an array"},        {"stage", "{}", "an object"},      {"dtype", "16", "the number 16"},
      {"prefetch", "\"2\"", "the string"}, {"plan", "1", "the number 1"},     {"plan", "\"on\"", "the string"},
      {"device-memory", "[]", "an array"}, {"timeout", "false", "a boolean"}, {"split-master", "\"off\"", "the string"},
      {"nvme-dir", "[\"a\"]", "an array"}, {"params", "3", "the number 3"}};
  for (const auto& row : cases) {
    EXPECT_THAT(refused("{\"" + row[0] + "\":" + row[1] + "}"),
                AllOf(HasSubstr("key \"" + row[0] + "\""), HasSubstr("not " + row[2]), HasSubstr(path_ + ":1:2")));
  }
}

TEST_F(Config, DuplicateKeysAreRefusedEvenWhenEqual) {
  EXPECT_THAT(refused("{\"stage\": 2,\n \"stage\": 2}"),
              AllOf(HasSubstr("key \"stage\" stands there a second time"), HasSubstr(path_ + ":2:2")));
}

TEST_F(Config, KeysAreFoundBehindEscapes) {
  EXPECT_EQ(read(R"({"\u0073tage": 1})").stage, 1);
  EXPECT_THAT(refused("{\n \"a\\\"b\\\\\": 1}"), AllOf(HasSubstr("a\"b"), HasSubstr(path_ + ":2:2")));
}

TEST_F(Config, SyntaxErrorsHaveLineAndColumn) {
  const std::vector<std::vector<std::string>> cases = {{"", ":1:1: "},
                                                       {"{", ":1:"},
                                                       {"{\"stage\": 2", ":1:"},
                                                       {"{\n\"stage\": 2,\n}", ":3:1"},
                                                       {"{\n\"stage\" 2}", ":2:9"},
                                                       {"{\"stage\": 2} x", ":1:14"},
                                                       {"{\"stage\": NaN}", ":1:11"},
                                                       {"{\"timeout\": Infinity}", ":1:13"},
                                                       {"{\"stage\": 02}", ":1:12"},
                                                       {"{\"dtype\": \"\xff\"}", ":1:12"},
                                                       {std::string("{\"dtype\": \"\xc0\x80\"}"), ":1:12"},
                                                       {"{\"dtype\": \"\xed\xa0\x80\"}", ":1:13"},
                                                       {std::string("{\0}", 3), ":1:2"},
                                                       {"{// comment\n}", ":1:2"}};
  for (const auto& row : cases) {
    EXPECT_THAT(refused(row[0]), AllOf(HasSubstr(path_ + row[1]), HasSubstr("not valid JSON"))) << row[0];
  }
}

TEST_F(Config, SyntaxErrorsNameTheKeyBefore) {
  EXPECT_THAT(refused("{\"stage\": 2, \"leases\": nan}"), HasSubstr("after key \"leases\""));
}

TEST_F(Config, NumbersBeyondADoubleAreNamed) {
  EXPECT_THAT(refused("{\"timeout\": 1e999}"),
              AllOf(HasSubstr("a number too large"), HasSubstr("\"1e999\""), HasSubstr("after key \"timeout\"")));
}

TEST_F(Config, TopMustBeAnObject) {
  for (const char* text : {"[]", "3", "null", "\"stage\"", "true"}) {
    EXPECT_THAT(refused(text), AllOf(HasSubstr("must be a JSON object"), HasSubstr(path_ + ":1:1"))) << text;
  }
}

TEST_F(Config, DepthCostsNothing) {
  constexpr std::size_t depth = 100'000;
  EXPECT_THAT(refused("{\"stage\": " + std::string(depth, '[') + std::string(depth, ']') + "}"),
              AllOf(HasSubstr("key \"stage\""), HasSubstr("not an array")));
  EXPECT_THAT(refused(std::string(depth, '[')), HasSubstr("must be a JSON object"));
  std::string objects;
  for (std::size_t i = 0; i < depth; ++i) objects += "{\"stage\":";
  EXPECT_THAT(refused(objects), AllOf(HasSubstr("key \"stage\""), HasSubstr("not an object")));
}

TEST_F(Config, AFileCannotNameAnother) {
  EXPECT_THAT(refused(R"({"config": "x.json"})"), AllOf(HasSubstr("key \"config\""), HasSubstr("not part of a file")));
}

TEST_F(Config, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(refusal({"--strata-config", "/nowhere/x.json"}),
              AllOf(HasSubstr("--strata-config"), HasSubstr("/nowhere/x.json"), HasSubstr("No such file")));
  EXPECT_THAT(refusal({"--strata-config", "/"}), HasSubstr("is not a regular file"));
  EXPECT_THAT(refusal({"--strata-config="}), HasSubstr("--strata-config"));
  write(std::string((1U << 20) + 1, ' '));
  EXPECT_THAT(refusal({"--strata-config", path_}), HasSubstr("of at most 1048576"));
}

TEST_F(Config, RandomBytesEndInAnErrorOrOptions) {
  std::uint32_t state = 1;
  const std::string seed = R"({"stage": 2, "device-memory": "512MiB", "plan": true, "timeout": 1.5e0})";
  for (int round = 0; round < 3000; ++round) {
    std::string text = seed;
    for (int change = 0; change < 1 + round % 4; ++change) {
      state = state * 1664525U + 1013904223U;
      text[(state >> 8) % text.size()] = static_cast<char>(state >> 24);
    }
    write(text);
    try {
      parse({"--strata-config", path_});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(path_)) << text;
    }
  }
}

}  // namespace
}  // namespace strata
