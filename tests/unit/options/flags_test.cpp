#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/options/digest.h"
#include "engine/options/table.h"
#include "unit/options/parsed.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Environment;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::parse;
using testing::refusal;

TEST(Flags, DefaultsWithoutAny) {
  const Options options = parse({}).options;
  EXPECT_EQ(options.stage, 3);
  EXPECT_EQ(options.dtype, Dtype::bf16);
  EXPECT_EQ(options.leases, 2U);
  EXPECT_FALSE(options.prefetch.has_value());
  EXPECT_FALSE(options.device_memory_bytes || options.host_memory_bytes || options.nvme_memory_bytes);
  for (const Home home : {options.params, options.optimizer, options.gradients, options.activations}) {
    EXPECT_EQ(home, Home::automatic);
  }
  EXPECT_EQ(options.activation_memory_bytes, 0U);
  EXPECT_TRUE(options.split_master);
  EXPECT_THAT(options.nvme_dirs, IsEmpty());
  EXPECT_EQ(options.io, IoBackend::automatic);
  EXPECT_EQ(options.io_inflight_bytes, 8U << 20);
  EXPECT_EQ(options.io_block_bytes, 2U << 20);
}

TEST(Flags, EachIsReadInBothSpellings) {
  const std::vector<std::vector<std::string>> pairs = {{"stage", "1"},
                                                       {"device", "cpu"},
                                                       {"dtype", "f16"},
                                                       {"grad-dtype", "bf16"},
                                                       {"reduce-dtype", "f16"},
                                                       {"prefetch", "5"},
                                                       {"device-memory", "1GiB"},
                                                       {"leases", "7"},
                                                       {"chunk", "4096"},
                                                       {"threads", "3"},
                                                       {"reduce", "step"},
                                                       {"comm", "shm"},
                                                       {"timeout", "2s"},
                                                       {"call-timeout", "3s"},
                                                       {"progress", "off"},
                                                       {"host-memory", "2GiB"},
                                                       {"nvme-memory", "3GiB"},
                                                       {"params", "device"},
                                                       {"optimizer", "nvme"},
                                                       {"gradients", "device"},
                                                       {"activations", "host"},
                                                       {"activation-memory", "4MiB"},
                                                       {"split-master", "off"},
                                                       {"nvme-dir", "/mnt/a,b"},
                                                       {"io", "threads"},
                                                       {"io-inflight", "16MiB"},
                                                       {"io-block", "1MiB"}};
  std::vector<std::string> joined;
  std::vector<std::string> apart;
  for (const auto& pair : pairs) {
    joined.push_back("--strata-" + pair[0] + "=" + pair[1]);
    apart.push_back("--strata-" + pair[0]);
    apart.push_back(pair[1]);
  }
  joined.push_back("--strata-plan");
  apart.push_back("--strata-plan");
  for (const auto& words : {joined, apart}) {
    const Options options = parse(words).options;
    EXPECT_EQ(options.stage, 1);
    EXPECT_EQ(options.device, Device{});
    EXPECT_EQ(options.dtype, Dtype::f16);
    EXPECT_EQ(options.grad_dtype, Dtype::bf16);
    EXPECT_EQ(options.reduce_dtype, Dtype::f16);
    EXPECT_EQ(options.prefetch, 5U);
    EXPECT_EQ(options.device_memory_bytes, 1ULL << 30);
    EXPECT_EQ(options.leases, 7U);
    EXPECT_EQ(options.chunk, 4096U);
    EXPECT_EQ(options.threads, 3U);
    EXPECT_EQ(options.reduce, ReducePolicy::step);
    EXPECT_EQ(options.comm, CommunicatorKind::shm);
    EXPECT_EQ(options.timeout_s, 2);
    EXPECT_EQ(options.call_timeout_s, 3);
    EXPECT_EQ(options.progress, Progress::off);
    EXPECT_EQ(options.host_memory_bytes, 2ULL << 30);
    EXPECT_EQ(options.nvme_memory_bytes, 3ULL << 30);
    EXPECT_EQ(options.params, Home::device);
    EXPECT_EQ(options.optimizer, Home::nvme);
    EXPECT_EQ(options.gradients, Home::device);
    EXPECT_EQ(options.activations, Home::host);
    EXPECT_EQ(options.activation_memory_bytes, 4U << 20);
    EXPECT_FALSE(options.split_master);
    EXPECT_THAT(options.nvme_dirs, ElementsAre("/mnt/a", "b"));
    EXPECT_EQ(options.io, IoBackend::threads);
    EXPECT_EQ(options.io_inflight_bytes, 16U << 20);
    EXPECT_EQ(options.io_block_bytes, 1U << 20);
    EXPECT_TRUE(options.plan_only);
    EXPECT_FALSE(options.help);
  }
}

TEST(Flags, LeaveTheProgramItsOwn) {
  const auto parsed =
      parse({"train", "--strata-stage", "2", "--steps", "9", "--strata-plan", "file", "--", "--strata-x"});
  EXPECT_THAT(parsed.rest, ElementsAre("train", "--steps", "9", "file", "--", "--strata-x"));
  EXPECT_EQ(parsed.options.stage, 2);
}

TEST(Flags, ErrorLeavesTheArgumentsAlone) {
  std::vector<std::string> words = {"program", "--strata-stage=1", "--strata-stage=7"};
  std::vector<char*> argv = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  const std::vector<char*> before = argv;
  int argc = 3;
  EXPECT_THROW(parse_options(argc, argv.data()), Error);
  EXPECT_EQ(argc, 3);
  EXPECT_EQ(argv, before);
}

TEST(Flags, WaitsInAnyUnit) {
  EXPECT_EQ(parse({"--strata-timeout=500ms"}).options.timeout_s, 0.5);
  EXPECT_EQ(parse({"--strata-timeout=1.5"}).options.timeout_s, 1.5);
  EXPECT_EQ(parse({"--strata-timeout=30s"}).options.timeout_s, 30);
  EXPECT_EQ(parse({"--strata-call-timeout=10min"}).options.call_timeout_s, 600);
  EXPECT_EQ(parse({"--strata-call-timeout=2h"}).options.call_timeout_s, 7200);
}

TEST(Flags, AutoTakesBackWhatAWeakerSourceSaid) {
  const Environment environment(
      "prefetch=3 device-memory=1GiB threads=2 chunk=4096 host-memory=1G nvme-memory=1G nvme-dir=d optimizer=nvme");
  const Options options = parse({"--strata-prefetch=auto", "--strata-device-memory=auto", "--strata-threads=auto",
                                 "--strata-chunk=auto", "--strata-host-memory=auto", "--strata-nvme-memory=auto",
                                 "--strata-nvme-dir=none", "--strata-optimizer=auto"})
                              .options;
  EXPECT_FALSE(options.prefetch || options.device_memory_bytes || options.threads || options.chunk);
  EXPECT_FALSE(options.host_memory_bytes || options.nvme_memory_bytes);
  EXPECT_THAT(options.nvme_dirs, IsEmpty());
  EXPECT_EQ(options.optimizer, Home::automatic);
}

TEST(Flags, RefuseIllegalValues) {
  const std::vector<std::vector<std::string>> cases = {{"stage", "4"},
                                                       {"stage", "-1"},
                                                       {"stage", "2.0"},
                                                       {"stage", "two"},
                                                       {"stage", "3 "},
                                                       {"dtype", "fp16"},
                                                       {"dtype", "f64"},
                                                       {"grad-dtype", "u8"},
                                                       {"reduce-dtype", ""},
                                                       {"prefetch", "1025"},
                                                       {"prefetch", "-1"},
                                                       {"prefetch", "18446744073709551616"},
                                                       {"leases", "0"},
                                                       {"leases", "1025"},
                                                       {"leases", "auto"},
                                                       {"chunk", "1024"},
                                                       {"chunk", "3000"},
                                                       {"chunk", "2097152"},
                                                       {"threads", "0"},
                                                       {"threads", "1025"},
                                                       {"device-memory", "-1"},
                                                       {"device", "tpu"},
                                                       {"device", "cpu:1"},
                                                       {"reduce", "steps"},
                                                       {"comm", "tcp"},
                                                       {"timeout", "0"},
                                                       {"timeout", "-3s"},
                                                       {"timeout", "nan"},
                                                       {"timeout", "inf"},
                                                       {"timeout", "3 s"},
                                                       {"timeout", "1e999"},
                                                       {"timeout", "3days"},
                                                       {"call-timeout", "1000001"},
                                                       {"progress", "maybe"},
                                                       {"plan", "perhaps"},
                                                       {"device-memory", "9223372036854775809"},
                                                       {"timeout", "1ms"},
                                                       {"device", "cuda:-1"},
                                                       {"device", "cuda:x"},
                                                       {"host-memory", "much"},
                                                       {"host-memory", "-1"},
                                                       {"nvme-memory", "1.5"},
                                                       {"nvme-memory", ""},
                                                       {"params", "disk"},
                                                       {"optimizer", "gpu"},
                                                       {"gradients", ""},
                                                       {"activations", "ram"},
                                                       {"activation-memory", "auto"},
                                                       {"activation-memory", "-1"},
                                                       {"split-master", "maybe"},
                                                       {"nvme-dir", ""},
                                                       {"nvme-dir", "a,"},
                                                       {"nvme-dir", ",a"},
                                                       {"nvme-dir", "a,,b"},
                                                       {"nvme-dir", "a,b,a"},
                                                       {"io", "aio"},
                                                       {"io-inflight", "2GiB"},
                                                       {"io-inflight", "4095"},
                                                       {"io-inflight", "auto"},
                                                       {"io-block", "3MiB"},
                                                       {"io-block", "2KiB"},
                                                       {"io-block", "32MiB"}};
  for (const auto& pair : cases) {
    const std::string text = refusal({"--strata-" + pair[0] + "=" + pair[1]});
    const std::string legal(detail::find_option(pair[0])->legal);
    EXPECT_THAT(text, AllOf(HasSubstr("--strata-" + pair[0]), HasSubstr('"' + pair[1] + '"'), HasSubstr(legal),
                            HasSubstr("as a flag")));
  }
}

TEST(Flags, UpToSixtyFourDirectories) {
  std::string dirs = "d0";
  for (int i = 1; i < 64; ++i) dirs += ",d" + std::to_string(i);
  EXPECT_EQ(parse({"--strata-nvme-dir", dirs}).options.nvme_dirs.size(), 64U);
  EXPECT_THAT(refusal({"--strata-nvme-dir", dirs + ",d64"}), HasSubstr("at most 64"));
}

TEST(Flags, NeedAValue) {
  EXPECT_THAT(refusal({"--strata-split-master"}), HasSubstr("--strata-split-master needs a value: on or off"));
  EXPECT_THAT(refusal({"--strata-stage"}), AllOf(HasSubstr("--strata-stage needs a value"), HasSubstr("0 to 3")));
  EXPECT_THAT(refusal({"--strata-stage", "--strata-leases", "3"}), HasSubstr("--strata-stage needs a value"));
}

TEST(Flags, CudaIsNamedAsMissing) {
  EXPECT_THAT(refusal({"--strata-device=cuda"}, ErrorCode::unsupported),
              AllOf(HasSubstr("--strata-device"), HasSubstr("\"cuda\""), HasSubstr("build with CUDA")));
  EXPECT_THAT(refusal({"--strata-device=cuda:1"}, ErrorCode::unsupported), HasSubstr("\"cuda:1\""));
}

TEST(Flags, RepeatsMustAgree) {
  EXPECT_EQ(parse({"--strata-stage=2", "--strata-stage", "2"}).options.stage, 2);
  EXPECT_EQ(parse({"--strata-device-memory=1K", "--strata-device-memory=1024"}).options.device_memory_bytes, 1024U);
  EXPECT_THAT(refusal({"--strata-stage=2", "--strata-stage=3"}),
              AllOf(HasSubstr("--strata-stage"), HasSubstr("\"2\" and \"3\""), HasSubstr("as a flag")));
  const Environment environment("leases=2 leases=3");
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("--strata-leases"), HasSubstr("STRATA_OPTIONS")));
}

TEST(Flags, ControlCharactersDoNotReachTheTerminal) {
  const std::string text = refusal({"--strata-stage=\x1b[2J\xff" + std::string(1000, 'x')});
  EXPECT_THAT(text, AllOf(HasSubstr("\\x1b[2J\\xff"), Not(HasSubstr("\x1b"))));
  EXPECT_LT(text.size(), 300U);
}

TEST(EnvironmentOptions, TakesFlagsWithAndWithoutPrefix) {
  const Environment environment(" --strata-stage=2\tprefetch=1\n leases 4 --strata-threads 2 plan ");
  const Options options = parse({}).options;
  EXPECT_EQ(options.stage, 2);
  EXPECT_EQ(options.prefetch, 1U);
  EXPECT_EQ(options.leases, 4U);
  EXPECT_EQ(options.threads, 2U);
  EXPECT_TRUE(options.plan_only);
}

TEST(EnvironmentOptions, LoseToFlagsButAreJudged) {
  {
    const Environment environment("stage=2 leases=5");
    const Options options = parse({"--strata-stage=1"}).options;
    EXPECT_EQ(options.stage, 1);
    EXPECT_EQ(options.leases, 5U);
  }
  const Environment environment("stage=9");
  EXPECT_THAT(refusal({"--strata-stage=1"}), AllOf(HasSubstr("--strata-stage"), HasSubstr("in STRATA_OPTIONS")));
}

TEST(EnvironmentOptions, NothingIsIgnored) {
  const Environment environment("stage=2 3");
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("there is no option \"3\""), HasSubstr("in STRATA_OPTIONS")));
}

TEST(Validate, HoldsTheSameBoundsForTheProgram) {
  EXPECT_NO_THROW(validate(Options{}));
  const auto refused = [](auto change, const std::string& name) {
    Options options;
    change(options);
    try {
      validate(options);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("--strata-" + name + " "), HasSubstr("in the program")));
    }
  };
  refused([](Options& o) { o.stage = 4; }, "stage");
  refused([](Options& o) { o.device.kind = DeviceKind::cuda; }, "device");
  refused([](Options& o) { o.device.index = 1; }, "device");
  refused([](Options& o) { o.dtype = Dtype::f64; }, "dtype");
  refused([](Options& o) { o.grad_dtype = Dtype::u8; }, "grad-dtype");
  refused([](Options& o) { o.reduce_dtype = Dtype::u64; }, "reduce-dtype");
  refused([](Options& o) { o.device_memory_bytes = ~0ULL; }, "device-memory");
  refused([](Options& o) { o.prefetch = 2000; }, "prefetch");
  refused([](Options& o) { o.leases = 0; }, "leases");
  refused([](Options& o) { o.chunk = 5000; }, "chunk");
  refused([](Options& o) { o.threads = 0; }, "threads");
  refused([](Options& o) { o.host_memory_bytes = ~0ULL; }, "host-memory");
  refused([](Options& o) { o.nvme_memory_bytes = ~0ULL; }, "nvme-memory");
  refused([](Options& o) { o.params = static_cast<Home>(9); }, "params");
  refused([](Options& o) { o.activation_memory_bytes = ~0ULL; }, "activation-memory");
  refused([](Options& o) { o.nvme_dirs = {"a", ""}; }, "nvme-dir");
  refused([](Options& o) { o.nvme_dirs = {"a", "a"}; }, "nvme-dir");
  refused([](Options& o) { o.io = static_cast<IoBackend>(9); }, "io");
  refused([](Options& o) { o.io_block_bytes = 5000; }, "io-block");
  refused([](Options& o) { o.io_inflight_bytes = 0; }, "io-inflight");
  refused([](Options& o) { o.timeout_s = std::numeric_limits<double>::quiet_NaN(); }, "timeout");
  refused([](Options& o) { o.call_timeout_s = -1; }, "call-timeout");
}

TEST(Help, ListsEveryOptionWithMeaningValuesAndDefault) {
  const std::string help = options_help();
  EXPECT_GE(detail::option_table().size(), 12U);
  for (const detail::OptionDescriptor& option : detail::option_table()) {
    EXPECT_THAT(help, HasSubstr("  " + detail::flag_of(option.name) + " "));
    EXPECT_THAT(help, HasSubstr(std::string(option.meaning)));
    EXPECT_THAT(help, HasSubstr(std::string(option.legal) + "; default " + option.print(Options{})));
  }
}

TEST(Digest, HoldsWhatRanksMustShare) {
  Options options;
  options.prefetch = 4;
  const std::string text = detail::engine_settings_digest_text(options);
  for (const char* line :
       {"stage=3\n", "device=cpu\n", "dtype=bf16\n", "grad-dtype=f32\n", "reduce-dtype=f32\n", "prefetch=4\n",
        "leases=2\n", "chunk=auto\n", "reduce=micro_batch\n", "params=auto\n", "optimizer=auto\n", "gradients=auto\n",
        "activations=auto\n", "activation-memory=0\n", "split-master=on\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  for (const char* name : {"device-memory", "host-memory", "nvme-memory", "nvme-dir", "io=", "io-", "threads",
                           "timeout", "progress", "plan", "help", "config"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

}  // namespace
}  // namespace strata
