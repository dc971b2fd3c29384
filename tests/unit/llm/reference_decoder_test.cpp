// The reference against difference quotients in f64, and the fast decoder against the reference on awkward sizes.
#include "reference_decoder.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "plain_memory.h"
#include "support/each_simd_target.h"

namespace llm::test {
namespace {

struct Size {
  const char* what;
  std::int64_t vocab, hidden, inner, layers, heads, kv_heads, head_dim;
  bool tied;
  std::size_t batch, seq;
};

Config to_config(const Size& size) {
  Config config;
  config.vocab_size = size.vocab;
  config.hidden_size = size.hidden;
  config.intermediate_size = size.inner;
  config.num_hidden_layers = size.layers;
  config.num_attention_heads = size.heads;
  config.num_key_value_heads = size.kv_heads;
  config.head_dim = size.head_dim;
  config.tie_word_embeddings = size.tied;
  config.rms_norm_eps = 1e-5;
  return config;
}

struct Batch {
  Batch(const Size& size, unsigned seed) {
    std::mt19937 generator(seed);
    const auto token = [&] { return static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(size.vocab)); };
    for (std::size_t i = 0; i < size.batch * size.seq; ++i) {
      tokens.push_back(token());
      targets.push_back(generator() % 5 == 0 ? ignored_target : token());
    }
  }
  std::vector<std::int32_t> tokens, targets;
};

template <class F>
ReferenceDecoder<F> reference_of(const Config& config,
                                 const std::map<std::string, std::vector<float>, std::less<>>& values) {
  Tensors<F> parameters;
  for (const auto& [name, tensor] : values) parameters[name].assign(tensor.begin(), tensor.end());
  return ReferenceDecoder<F>(config, std::move(parameters));
}

// Central differences: the error is of order step^2 = 1e-10, plus 1e-16 / step = 1e-11 of cancellation.
TEST(ReferenceDecoder, GradientsAreDifferenceQuotients) {
  for (const bool tied : {false, true}) {
    const Size size{"", 11, 12, 10, 2, 3, 1, 4, tied, 2, 5};
    const Config config = to_config(size);
    const Batch batch(size, 3);
    auto reference = reference_of<double>(config, random_parameters(config, 1, 0.4f));
    reference.forward(batch.tokens, batch.targets, size.batch);
    reference.backward();
    const Tensors<double> gradients = reference.gradients();
    std::mt19937 pick(2);
    for (auto& [name, values] : reference.parameters()) {
      for (int trial = 0; trial < 6; ++trial) {
        const std::size_t i = pick() % values.size();
        constexpr double step = 1e-5;
        const double kept = values[i];
        values[i] = kept + step;
        const double above = reference.forward(batch.tokens, batch.targets, size.batch);
        values[i] = kept - step;
        const double below = reference.forward(batch.tokens, batch.targets, size.batch);
        values[i] = kept;
        EXPECT_NEAR(gradients.at(name)[i], (above - below) / (2 * step), 1e-8) << name << " " << i;
      }
    }
  }
}

class Sizes : public testing::TestWithParam<Size> {};

double error_of(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, largest = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    error = std::isfinite(difference) ? std::max(error, difference) : INFINITY;
    largest = std::max(largest, std::abs(want[i]));
  }
  return error / largest;
}

TEST_P(Sizes, MatchTheReference) {
  const Size& size = GetParam();
  const Config config = to_config(size);
  const Batch batch(size, 5);
  const auto values = random_parameters(config, 7);
  auto reference = reference_of<double>(config, values);
  const double want = reference.forward(batch.tokens, batch.targets, size.batch);
  reference.backward();
  omp_set_num_threads(2);
  DecoderOptions options;
  options.batch = size.batch;
  options.seq = size.seq;
  PlainModel model(config, options, values);
  strata::test::for_each_simd_target([&] {
    EXPECT_NEAR(model.run(batch.tokens, batch.targets, size.batch).mean, want, 1e-6 * want);
    for (const auto& [name, gradient] : reference.gradients()) {
      EXPECT_LE(error_of(model.gradient(name), gradient), 2e-5) << name;
    }
  });
}

// bf16 products: operands and most activations have 8 bits, an error of 2^-9 = 0.2 % each, a few of which meet in a
// gradient of this depth; a wrong formula is off by 10 % and more.
TEST_P(Sizes, Bf16StaysWithinItsRoundings) {
  const Size& size = GetParam();
  const Config config = to_config(size);
  const Batch batch(size, 5);
  DecoderOptions options;
  options.batch = size.batch;
  options.seq = size.seq;
  options.parameters = strata::Dtype::bf16;
  options.operand = strata::Dtype::bf16;
  PlainModel model(config, options, random_parameters(config, 7));
  std::map<std::string, std::vector<float>, std::less<>> rounded;
  for (const auto& [name, unused] : random_parameters(config, 7)) rounded[name] = model.parameters.values(name);
  auto reference = reference_of<double>(config, rounded);
  const double want = reference.forward(batch.tokens, batch.targets, size.batch);
  reference.backward();
  strata::test::for_each_simd_target([&] {
    EXPECT_NEAR(model.run(batch.tokens, batch.targets, size.batch).mean, want, 5e-3 * want);
    for (const auto& [name, gradient] : reference.gradients()) {
      EXPECT_LE(error_of(model.gradient(name), gradient), 0.05) << name;
    }
  });
}

// Parameters of 16 bits with f32 products are widened, exactly: all is as with f32 parameters of the same values, but
// for the order of sums where widened matrices lie side by side.
TEST(WidenedDecoder, IsAsWithF32) {
  const Size size{"", 31, 20, 13, 2, 5, 1, 6, true, 2, 7};
  const Config config = to_config(size);
  const Batch batch(size, 5);
  omp_set_num_threads(1);
  for (const strata::Dtype dtype : {strata::Dtype::bf16, strata::Dtype::f16}) {
    DecoderOptions options;
    options.batch = size.batch;
    options.seq = size.seq;
    options.parameters = dtype;
    PlainModel narrow(config, options, random_parameters(config, 7));
    std::map<std::string, std::vector<float>, std::less<>> values;
    for (const auto& [name, unused] : random_parameters(config, 7)) values[name] = narrow.parameters.values(name);
    options.parameters = strata::Dtype::f32;
    PlainModel wide(config, options, values);
    const double want = wide.run(batch.tokens, batch.targets, size.batch).mean;
    EXPECT_NEAR(narrow.run(batch.tokens, batch.targets, size.batch).mean, want, 1e-6 * want);
    for (const auto& [name, unused] : values) {
      const std::vector<float> gradient = wide.gradient(name);
      EXPECT_LE(error_of(narrow.gradient(name), {gradient.begin(), gradient.end()}), 5e-6) << name;
    }
  }
}

// Gradient leases of 16 bits hold the f32 gradients rounded once; a loss scale multiplies them.
TEST(NarrowGradients, AreRoundedOnce) {
  const Size size{"", 31, 20, 13, 2, 5, 1, 6, false, 2, 7};
  const Config config = to_config(size);
  const Batch batch(size, 5);
  omp_set_num_threads(1);
  DecoderOptions options;
  options.batch = size.batch;
  options.seq = size.seq;
  PlainModel wide(config, options, random_parameters(config, 7));
  wide.run(batch.tokens, batch.targets, size.batch, 1024);
  PlainModel plain(config, options, random_parameters(config, 7));
  plain.run(batch.tokens, batch.targets, size.batch);
  for (const strata::Dtype dtype : {strata::Dtype::bf16, strata::Dtype::f16}) {
    options.gradients = dtype;
    PlainModel narrow(config, options, random_parameters(config, 7));
    narrow.run(batch.tokens, batch.targets, size.batch, 1024);
    const float half_ulp = dtype == strata::Dtype::bf16 ? 0x1p-9f : 0x1p-12f;
    for (const auto& [name, unused] : random_parameters(config, 7)) {
      const std::vector<float> got = narrow.gradient(name), want = wide.gradient(name), unscaled = plain.gradient(name);
      for (std::size_t i = 0; i < want.size(); ++i) {
        EXPECT_NEAR(got[i], want[i], 2 * half_ulp * std::abs(want[i]) + 0x1p-25f) << name;
        EXPECT_NEAR(unscaled[i] * 1024, want[i], 1e-4f * std::abs(want[i]) + 1e-5f) << name;
      }
    }
  }
}

// What is not finite must not be hidden by a kernel: it has to reach the loss or a gradient.
TEST(NonFinite, ReachesLossAndGradients) {
  const Size size{"", 31, 20, 13, 2, 5, 1, 6, false, 2, 7};
  const Config config = to_config(size);
  Batch batch(size, 5);
  DecoderOptions options;
  options.batch = size.batch;
  options.seq = size.seq;
  for (const float bad : {NAN, INFINITY}) {
    for (const auto& [name, unused] : random_parameters(config, 7)) {
      if (name == embed_name) continue;  // may be a row that no token reads
      auto values = random_parameters(config, 7);
      values[name][values[name].size() / 2] = bad;
      PlainModel model(config, options, values);
      bool finite = std::isfinite(model.run(batch.tokens, batch.targets, size.batch).mean);
      for (const auto& [tensor, none] : values) {
        for (const float value : model.gradient(tensor)) finite = finite && std::isfinite(value);
      }
      EXPECT_FALSE(finite) << name << " " << bad;
    }
  }
}

// As many tokens in sequences four times as long: only a thread's block of scores and packed head grow with T, not T x
// T.
TEST(Workspace, GrowsWithTokensNotWithTheirSquare) {
  omp_set_num_threads(2);
  const auto bytes_of = [](std::size_t batch, std::size_t seq) {
    DecoderOptions options;
    options.batch = batch;
    options.seq = seq;
    return make_decoder(preset("tiny"), options)->workspace_bytes();
  };
  const std::size_t bytes = bytes_of(8, 1024), longer = bytes_of(2, 4096);
  EXPECT_GT(longer, bytes);
  EXPECT_LT(longer, bytes + (std::size_t{8} << 20)) << "one 4,096 x 4,096 matrix of scores has 64 MiB";
}

TEST(DecoderArguments, AreChecked) {
  const Size size{"", 31, 20, 13, 2, 5, 1, 6, false, 2, 7};
  const Config config = to_config(size);
  const Batch batch(size, 5);
  DecoderOptions options;
  options.batch = size.batch;
  options.seq = size.seq;
  PlainModel model(config, options, random_parameters(config, 7));
  std::vector<std::int32_t> tokens = batch.tokens;
  EXPECT_THROW(model.forward(std::span(tokens).first(3), 2), std::invalid_argument);
  EXPECT_THROW(model.forward(std::vector<std::int32_t>(16), 2), std::invalid_argument) << "longer than planned";
  tokens[1] = 31;
  EXPECT_THROW(model.forward(tokens, 2), std::invalid_argument);
  tokens[1] = -1;
  EXPECT_THROW(model.forward(tokens, 2), std::invalid_argument);
  std::vector<std::int32_t> targets = batch.targets;
  targets[0] = 31;
  EXPECT_THROW(model.run(batch.tokens, targets, 2), std::invalid_argument);
  options.operand = strata::Dtype::bf16;
  EXPECT_THROW(make_decoder(config, options), std::invalid_argument) << "bf16 products of f32 parameters";
}

INSTANTIATE_TEST_SUITE_P(Decoder, Sizes,
                         testing::Values(Size{"odd", 31, 20, 13, 2, 5, 1, 6, false, 2, 7},
                                         Size{"one_token", 5, 4, 3, 1, 1, 1, 2, true, 1, 1},
                                         Size{"wide_heads", 17, 24, 16, 1, 2, 2, 40, false, 1, 67},
                                         Size{"head_dim_128", 9, 16, 8, 1, 1, 1, 128, false, 2, 33},
                                         Size{"whole_blocks", 16, 32, 48, 2, 4, 2, 16, true, 2, 64},
                                         Size{"past_a_block", 16, 16, 16, 1, 3, 3, 8, false, 3, 65},
                                         Size{"many_rows", 7, 8, 8, 1, 2, 1, 4, false, 9, 130},
                                         Size{"long_sequence", 16, 8, 8, 1, 2, 1, 8, false, 1, 1000}),
                         [](const auto& info) { return std::string(info.param.what); });

}  // namespace
}  // namespace llm::test
