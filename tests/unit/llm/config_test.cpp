#include "config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>

#include "units.h"

namespace llm::test {
namespace {

const std::string sizes =
    R"("vocab_size": 97, "hidden_size": 48, "intermediate_size": 112, "num_hidden_layers": 3, "num_attention_heads": 6)";

Config parse(const std::string& more) { return parse_config("{" + sizes + more + "}"); }

template <class Act>
std::string refusal(const Act& act) {
  try {
    act();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Config, AbsentKeysHaveDefaults) {
  const Config config = parse("");
  EXPECT_EQ(config.num_key_value_heads, 6);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_FALSE(config.tie_word_embeddings);
}

TEST(Config, RotaryBaseIsReadInBothPlaces) {
  EXPECT_EQ(parse(R"(, "rope_theta": 5e5)").rope_theta, 5e5);
  EXPECT_EQ(parse(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 2e5})").rope_theta, 2e5);
  EXPECT_EQ(parse(R"(, "rope_parameters": null, "rope_theta": 3e5)").rope_theta, 3e5);
}

TEST(Config, WhatIsNotComputedIsRefusedByName) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal([] { parse(R"(, "attention_bias": true)"); }), HasSubstr("attention_bias"));
  EXPECT_THAT(refusal([] { parse(R"(, "hidden_act": "gelu")"); }), HasSubstr("gelu"));
  EXPECT_THAT(refusal([] { parse(R"(, "rope_scaling": {"factor": 2})"); }), HasSubstr("rope_scaling"));
  EXPECT_THAT(refusal([] { parse(R"(, "rope_parameters": {"rope_type": "yarn"})"); }), HasSubstr("yarn"));
  EXPECT_THAT(refusal([] { parse(R"(, "num_key_value_heads": 4)"); }), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refusal([] { parse(R"(, "head_dim": 7)"); }), HasSubstr("head_dim"));
  EXPECT_THAT(refusal([] { parse(R"(, "head_dim": "8")"); }), HasSubstr("head_dim"));
  EXPECT_THAT(refusal([] { parse(R"(, "num_key_value_heads": 0)"); }), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(refusal([] { parse_config(R"({"vocab_size": 5})"); }), HasSubstr("hidden_size"));
  EXPECT_THAT(refusal([] { parse_config("[]"); }), HasSubstr("JSON"));
  EXPECT_THAT(refusal([] { parse_config("{"); }), HasSubstr("JSON"));
  EXPECT_THAT(refusal([] { preset("huge"); }), HasSubstr("smollm2"));
  EXPECT_THAT(refusal([] { read_config("/nonexistent/config.json"); }), HasSubstr("/nonexistent/config.json"));
}

TEST(Config, PresetsHaveTheirSizes) {
  EXPECT_EQ(preset("demo").parameter_count(), 10081600);
  EXPECT_EQ(preset("smollm2").parameter_count(), 134515008);
  EXPECT_EQ(preset("124m").parameter_count(), 134105856);
  EXPECT_LT(preset("tiny").parameter_count(), 1000000);
  for (const char* name : {"tiny", "demo", "124m", "smollm2"}) validate(preset(name));
}

TEST(Units, HoldEveryParameterOnceAndDecayMatricesOnly) {
  for (const char* name : {"tiny", "demo", "smollm2"}) {
    const Config config = preset(name);
    std::set<std::string> names;
    std::int64_t count = 0;
    for (const strata::Unit& unit : make_units(config)) {
      for (const strata::Tensor& tensor : unit.tensors) {
        EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
        std::int64_t elements = 1;
        for (const std::int64_t extent : tensor.shape) elements *= extent;
        count += elements;
        const bool decays = tensor.name.ends_with("_proj.weight") || tensor.name == "lm_head.weight";
        EXPECT_EQ(tensor.decay == strata::Decay::on, decays) << tensor.name;
      }
    }
    EXPECT_EQ(count, config.parameter_count());
    EXPECT_EQ(names.count("lm_head.weight"), config.tie_word_embeddings ? 0u : 1u);
  }
}

TEST(Initializer, DependsOnSeedNameAndIndexAlone) {
  strata::Tensor tensor;
  tensor.name = "model.layers.0.self_attn.q_proj.weight";
  std::vector<float> whole(100), part(30), other(100);
  make_initializer(1)(tensor, 0, whole);
  make_initializer(1)(tensor, 50, part);
  make_initializer(2)(tensor, 0, other);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 50));
  EXPECT_NE(whole, other);
  tensor.name = "model.norm.weight";
  make_initializer(1)(tensor, 7, part);
  EXPECT_THAT(part, testing::Each(1.0f));
}

}  // namespace
}  // namespace llm::test
