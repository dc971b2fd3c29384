// Loss, logits and every gradient against values that PyTorch computed in f64.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "plain_memory.h"
#include "support/golden.h"

namespace llm::test {
namespace {

constexpr double loss_bound = 1e-6;  // one f32 rounding is 6e-8
constexpr double tensor_bound =
    1e-5;  // of its largest value: sums of a few hundred f32 terms, in any order, give 2.4e-6

std::vector<std::int32_t> to_i32(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

double largest_error(std::span<const float> got, std::span<const double> want) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    error = std::isfinite(difference) ? std::max(error, difference) : INFINITY;
    largest = std::max(largest, std::abs(want[i]));
  }
  return error / largest;
}

struct Case {
  explicit Case(const std::string& name)
      : folder(std::string(STRATA_TEST_DATA) + "/" + name),
        config(read_config(folder / "config.json")),
        model((folder / "model.safetensors").string()),
        expected((folder / "expected.safetensors").string()),
        tokens(to_i32(expected.i64("input_ids"))),
        targets(to_i32(expected.i64("targets"))),
        batch(static_cast<std::size_t>(expected.shape("input_ids")[0])) {
    for (const std::string& tensor : model.names()) {
      const auto values = model.f32(tensor);
      parameters[tensor].assign(values.begin(), values.end());
    }
  }

  DecoderOptions options() const {
    DecoderOptions made;
    made.batch = batch;
    made.seq = tokens.size() / batch;
    return made;
  }

  std::filesystem::path folder;
  Config config;
  strata::test::Golden model, expected;
  std::vector<std::int32_t> tokens, targets;
  std::size_t batch;
  std::map<std::string, std::vector<float>, std::less<>> parameters;
};

class GoldenDecoder : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(GoldenDecoder, LossLogitsAndGradients) {
  const Case golden(std::get<0>(GetParam()));
  omp_set_num_threads(std::get<1>(GetParam()));
  PlainModel model(golden.config, golden.options(), golden.parameters);

  const LossSum loss = model.run(golden.tokens, golden.targets, golden.batch);
  const double want = golden.expected.scalar("loss");
  EXPECT_NEAR(loss.mean, want, loss_bound * want);

  std::vector<float> logits(golden.tokens.size() * static_cast<std::size_t>(golden.config.vocab_size));
  model.forward(golden.tokens, golden.batch);
  EXPECT_NEAR(model.decoder->loss(model.head(), golden.targets).mean, want, loss_bound * want);
  model.decoder->logits(model.head(), 0, golden.tokens.size(), logits);
  EXPECT_LE(largest_error(logits, golden.expected.f64("logits")), tensor_bound);

  std::size_t compared = 0;
  for (const auto& [name, unused] : golden.parameters) {
    EXPECT_LE(largest_error(model.gradient(name), golden.expected.f64("grad." + name)), tensor_bound) << name;
    ++compared;
  }
  EXPECT_EQ(compared + 4, golden.expected.names().size());  // input_ids, targets, loss, logits
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenDecoder,
                         testing::Combine(testing::Values("decoder_gqa_untied", "decoder_mha_tied",
                                                          "decoder_mqa_masked"),
                                          testing::Values(1, 2)));

// Rows given to different ranks: weight = targets that count, and the weighted mean is the gradient of them all.
TEST(GoldenDecoder, RowsApartAddUpByWeight) {
  const Case golden("decoder_mqa_masked");
  omp_set_num_threads(1);
  DecoderOptions options = golden.options();
  options.batch = 1;
  PlainModel model(golden.config, options, golden.parameters);
  std::map<std::string, std::vector<double>> sums;
  double weight = 0;
  for (std::size_t row = 0; row < golden.batch; ++row) {
    const auto tokens = std::span(golden.tokens).subspan(row * options.seq, options.seq);
    const auto targets = std::span(golden.targets).subspan(row * options.seq, options.seq);
    const LossSum loss = model.run(tokens, targets, 1);
    for (const auto& [name, unused] : golden.parameters) {
      const std::vector<float> gradient = model.gradient(name);
      std::vector<double>& sum = sums[name];
      sum.resize(gradient.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i] * static_cast<double>(loss.count);
    }
    weight += static_cast<double>(loss.count);
  }
  EXPECT_EQ(weight, 31);
  for (const auto& [name, sum] : sums) {
    std::vector<float> mean(sum.size());
    for (std::size_t i = 0; i < sum.size(); ++i) mean[i] = static_cast<float>(sum[i] / weight);
    EXPECT_LE(largest_error(mean, golden.expected.f64("grad." + name)), tensor_bound) << name;
  }
}

}  // namespace
}  // namespace llm::test
