// Models and tokenizers of others: read right, and refused when broken.
#include "loaded_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "decoder.h"
#include "sampling.h"
#include "support/golden.h"
#include "tokenizer.h"

namespace llm::test {
namespace {

const std::string stories = STRATA_TEST_DATA "/stories260k/";
const std::string hugging_face = STRATA_TEST_DATA "/decoder_mha_tied/";

nlohmann::json expected() { return nlohmann::json::parse(std::ifstream(stories + "expected.json")); }

TEST(Tokenizer, EncodesAndDecodesAsItsAuthor) {
  const Tokenizer tokenizer(stories + "tok512.bin");
  EXPECT_EQ(tokenizer.size(), 512u);
  const nlohmann::json cases = expected()["encodings"];
  ASSERT_EQ(cases.size(), 6u);
  for (const nlohmann::json& one : cases) {
    const auto ids = one["ids"].get<std::vector<std::int32_t>>();
    EXPECT_EQ(tokenizer.encode(one["text"].get<std::string>()), ids);
    EXPECT_EQ(tokenizer.decode(ids), one["text"]);
  }
  EXPECT_THROW(tokenizer.decode(std::vector<std::int32_t>{512}), std::invalid_argument);
  EXPECT_THROW(Tokenizer(stories + "README.md"), std::invalid_argument);
  EXPECT_THROW(Tokenizer("/nonexistent"), std::invalid_argument);
}

TEST(Stories, SpeaksAsItsAuthorSays) {
  const LoadedModel model = read_stories(stories + "stories260K.bin");
  const Config& config = model.config();
  DecoderOptions sizes;
  const auto decoder = make_decoder(config, sizes);
  SamplingOptions sampling;
  sampling.count = 120;
  sampling.temperature = 0;
  sampling.window = sizes.seq;
  sampling.vocab_size = static_cast<std::size_t>(config.vocab_size);
  const auto ids = sample({Tokenizer::begin_id}, sampling, [&](auto tokens, std::size_t last, std::span<float> out) {
    decoder->embed(model, tokens, 1);
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      decoder->forward_block(static_cast<std::size_t>(layer), model);
    }
    decoder->logits({model, model}, last, 1, out);
  });
  const std::string text = Tokenizer(stories + "tok512.bin").decode(ids);
  EXPECT_GT(text.size(), 200u);
  EXPECT_EQ(text, expected()["greedy_text"].get<std::string>().substr(0, text.size()));
}

TEST(HuggingFace, ReadsEveryTensor) {
  const LoadedModel model = read_hugging_face(hugging_face);
  const strata::test::Golden golden(hugging_face + "model.safetensors");
  EXPECT_EQ(model.config().rope_theta, 500000.0);
  for (const std::string& name : golden.names()) {
    const auto want = golden.f32(name);
    const auto got = model.bytes(name);
    ASSERT_EQ(got.size(), want.size_bytes()) << name;
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size()), 0) << name;
  }
}

class BrokenFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / ("loaded_model_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string read(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  std::string write(const std::string& name, const std::string& bytes) {
    const std::filesystem::path file = folder_ / name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file.string();
  }
  std::string refusal(const std::string& safetensors) {
    write("config.json", read(hugging_face + "config.json"));
    write("model.safetensors", safetensors);
    try {
      read_hugging_face(folder_);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "not refused";
  }
  static std::string with_header(const std::string& header) {
    std::string bytes(8, '\0');
    const std::uint64_t size = header.size();
    std::memcpy(bytes.data(), &size, sizeof(size));
    return bytes + header;
  }

  std::filesystem::path folder_;
};

TEST_F(BrokenFiles, OfHuggingFaceAreRefused) {
  using testing::HasSubstr;
  const std::string whole = read(hugging_face + "model.safetensors");
  EXPECT_THAT(refusal(""), HasSubstr("no safetensors"));
  EXPECT_THAT(refusal(std::string(8, '\xff') + "{}"), HasSubstr("no safetensors"));
  EXPECT_THAT(refusal(with_header("[]")), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1)), HasSubstr("does not lie within the file"));
  EXPECT_THAT(refusal(with_header("{}")), HasSubstr("no tensor"));
  EXPECT_THAT(refusal(with_header(R"({"a": {"dtype": "I8", "data_offsets": [0, 0]}})")), HasSubstr("I8"));
  EXPECT_THAT(refusal(with_header(R"({"a": {"dtype": "F32", "data_offsets": [-4, 0]}})")), HasSubstr("'a'"));
  EXPECT_THAT(refusal(with_header(R"({"a": {"dtype": "F32", "data_offsets": [4, 0]}})")), HasSubstr("'a'"));
  EXPECT_THAT(refusal(with_header(R"({"a": {"dtype": "F32", "data_offsets": [0, 18446744073709551615]}})")),
              HasSubstr("'a'"));
  EXPECT_THAT(refusal(with_header(R"({"model.norm.weight": {"dtype": "F32", "data_offsets": [0, 4]}})") + "abcd"),
              HasSubstr("no tensor"));
}

TEST_F(BrokenFiles, OfStoriesAreRefused) {
  const std::string whole = read(stories + "stories260K.bin");
  EXPECT_THROW(read_stories(write("a", "")), std::invalid_argument);
  EXPECT_THROW(read_stories(write("a", whole.substr(0, 100000))), std::invalid_argument);
  EXPECT_THROW(read_stories(write("a", std::string(28, '\x7f'))), std::invalid_argument);
  EXPECT_THROW(read_stories("/nonexistent"), std::invalid_argument);
}

}  // namespace
}  // namespace llm::test
