// Activations computed again are the same bits, in a fraction of the memory.
#include <gtest/gtest.h>

#include "unit/llm/plain_memory.h"

namespace llm::test {
namespace {

Config small_config(bool tied) {
  Config config;
  config.vocab_size = 61;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 6;
  config.tie_word_embeddings = tied;
  return config;
}

// What a loop with checkpoints does.
LossSum run_with_checkpoints(PlainModel& model, std::span<const std::int32_t> tokens,
                             std::span<const std::int32_t> targets, std::size_t batch) {
  std::vector<std::vector<float>> inputs;
  model.decoder->embed(model.parameters, tokens, batch);
  for (std::size_t l = 0; l < model.layer_count(); ++l) {
    model.decoder->forward_block(l, model.parameters);
    const auto input = model.decoder->block_input();
    inputs.emplace_back(input.begin(), input.end());
  }
  GradientTarget& table = model.config.tie_word_embeddings ? model.head_gradients : model.gradients;
  const LossSum loss = model.decoder->train_head(model.head(), targets, 2, {model.gradients, table});
  for (std::size_t l = model.layer_count(); l-- > 0;) {
    if (l + 1 < model.layer_count()) {
      std::copy(inputs[l].begin(), inputs[l].end(), model.decoder->block_input().begin());
    }
    model.decoder->backward_block(l, model.parameters, model.gradients);
  }
  model.decoder->backward_embed(model.gradients);
  return loss;
}

struct Dtypes {
  strata::Dtype parameters, gradients, operand;
};

class Recompute : public testing::TestWithParam<Dtypes> {};
INSTANTIATE_TEST_SUITE_P(Dtypes, Recompute,
                         testing::Values(Dtypes{strata::Dtype::f32, strata::Dtype::f32, strata::Dtype::f32},
                                         Dtypes{strata::Dtype::bf16, strata::Dtype::f32, strata::Dtype::f32},
                                         Dtypes{strata::Dtype::bf16, strata::Dtype::bf16, strata::Dtype::bf16},
                                         Dtypes{strata::Dtype::f16, strata::Dtype::f16, strata::Dtype::f32}),
                         [](const auto& dtypes) {
                           return std::string(strata::to_string(dtypes.param.parameters)) + "_" +
                                  std::string(strata::to_string(dtypes.param.gradients)) + "_" +
                                  std::string(strata::to_string(dtypes.param.operand));
                         });

TEST_P(Recompute, gives_the_same_loss_and_gradients) {
  const Config config = small_config(true);
  DecoderOptions options;
  options.batch = 3;
  options.seq = 20;
  options.parameters = GetParam().parameters;
  options.gradients = GetParam().gradients;
  options.operand = GetParam().operand;
  const auto values = random_parameters(config, 5);
  PlainModel kept(config, options, values);
  options.recompute = true;
  PlainModel again(config, options, values);
  std::mt19937 generator(7);
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<std::int32_t> tokens(2 * 19), targets(2 * 19);  // fewer than planned
    for (auto& token : tokens) token = static_cast<std::int32_t>(generator() % 61);
    for (auto& target : targets) target = static_cast<std::int32_t>(generator() % 61);
    const LossSum wanted = kept.run(tokens, targets, 2, 2);
    const LossSum found = run_with_checkpoints(again, tokens, targets, 2);
    EXPECT_EQ(found.mean, wanted.mean);
    visit_tensors(config, [&](const strata::Tensor& tensor, std::size_t) {
      EXPECT_EQ(again.gradient(tensor.name), kept.gradient(tensor.name)) << tensor.name;
    });
  }
}

TEST(RecomputingDecoder, takes_the_room_of_one_layer) {
  Config config = small_config(false);
  DecoderOptions options;
  options.batch = 4;
  options.seq = 256;
  const auto bytes = [&](std::int64_t layers, bool recompute) {
    config.num_hidden_layers = layers;
    options.recompute = recompute;
    return make_decoder(config, options)->workspace_bytes();
  };
  const std::size_t one = bytes(1, false);
  EXPECT_EQ(bytes(8, true), one);
  EXPECT_EQ(bytes(8, false) - one, 7 * (bytes(2, false) - one));
  EXPECT_GT(bytes(2, false), one);
}

}  // namespace
}  // namespace llm::test
