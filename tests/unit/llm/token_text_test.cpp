#include "token_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <stdexcept>
#include <string>

#include "kernels/cross_entropy.h"

namespace llm::test {
namespace {

class TokenTextTest : public testing::Test {
 protected:
  // Tokens 0, 1, 2, ... modulo 251: a token says where it stood.
  std::filesystem::path write(std::size_t count, std::size_t width = 1) {
    const std::filesystem::path file = testing::TempDir() + "token_text_" + std::to_string(::getpid());
    std::ofstream stream(file, std::ios::binary);
    for (std::size_t i = 0; i < count; ++i) {
      stream.put(static_cast<char>(i % 251));
      if (width == 2) stream.put('\1');
    }
    files_.push_back(file);
    return file;
  }
  void TearDown() override {
    for (const auto& file : files_) std::filesystem::remove(file);
  }
  std::vector<std::filesystem::path> files_;
};

TEST_F(TokenTextTest, TargetsAreTheNextTokens) {
  const TokenText text(write(5000), TokenKind::bytes, 256, 16);
  SequenceBatch batch;
  text.fill_training(1, {}, 3, batch);
  ASSERT_EQ(batch.tokens.size(), 48u);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) EXPECT_EQ((batch.tokens[i] + 1) % 251, batch.targets[i]);
}

TEST_F(TokenTextTest, EveryRankStepMicroBatchAndSeedReadsItsOwn) {
  const TokenText text(write(50000), TokenKind::bytes, 256, 64);
  std::set<std::vector<std::int32_t>> seen;
  SequenceBatch batch, again;
  for (const std::uint64_t seed : {1u, 2u}) {
    for (const std::uint64_t step : {0u, 1u}) {
      for (const std::uint64_t micro_batch : {0u, 1u}) {
        for (const int rank : {0, 1}) {
          text.fill_training(seed, {step, micro_batch, rank, 2}, 2, batch);
          text.fill_training(seed, {step, micro_batch, rank, 2}, 2, again);
          EXPECT_EQ(batch.tokens, again.tokens);
          seen.insert(batch.tokens);
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 16u);
}

TEST_F(TokenTextTest, TrainingNeverReadsWhatIsHeldOut) {
  const TokenText text(write(200), TokenKind::bytes, 256, 16);  // 183 tokens to learn, 17 held out
  EXPECT_EQ(text.training_count(), 183u);
  EXPECT_EQ(text.held_out_count(), 1u);
  SequenceBatch batch;
  for (std::uint64_t step = 0; step < 500; ++step) {
    text.fill_training(1, {step, 0, 0, 1}, 4, batch);
    for (const std::int32_t target : batch.targets) ASSERT_LT(target, 183);
  }
  text.fill_held_out(0, 2, 1, batch);
  EXPECT_EQ(batch.tokens[0], 183);
  EXPECT_EQ(batch.targets[15], 199);
  for (std::size_t i = 16; i < 32; ++i) EXPECT_EQ(batch.targets[i], ignored_target) << "behind the last sequence";
}

TEST_F(TokenTextTest, AnEvaluationSpreadsOverAllThatIsHeldOut) {
  const TokenText text(write(200 * 20), TokenKind::bytes, 256, 16);  // 200 tokens held out
  ASSERT_EQ(text.held_out_count(), 12u);
  SequenceBatch whole, spread;
  text.fill_held_out(0, 12, 12, whole);
  text.fill_held_out(0, 4, 4, spread);
  for (std::size_t row = 0; row < 4; ++row) EXPECT_EQ(spread.tokens[row * 16], whole.tokens[row * 3 * 16]);
  text.fill_held_out(3, 2, 4, spread);
  EXPECT_EQ(spread.tokens[0], whole.tokens[9 * 16]);
  EXPECT_EQ(spread.targets[16], ignored_target) << "behind the last one";
}

// Each token is its own position.
TEST_F(TokenTextTest, HeldOutPiecesComeFromEverywhere) {
  const std::filesystem::path file = testing::TempDir() + "token_text_parts_" + std::to_string(::getpid());
  {
    std::ofstream stream(file, std::ios::binary);
    for (std::uint16_t i = 0; i < 50000; ++i) stream.write(reinterpret_cast<const char*>(&i), 2);
  }
  files_.push_back(file);
  const TokenText text(file, TokenKind::u16, 65536, 38);  // 2,500 held out: 16 pieces of 156 or 157
  ASSERT_EQ(text.held_out().size(), 2500u);
  std::set<std::int32_t> held(text.held_out().begin(), text.held_out().end());
  EXPECT_EQ(held.size(), 2500u);
  for (int part = 0; part < 16; ++part) {
    EXPECT_TRUE(held.contains(50000 * (part + 1) / 16 - 1));
    EXPECT_TRUE(held.contains(50000 * (part + 1) / 16 - 156));
    EXPECT_FALSE(held.contains(50000 * (part + 1) / 16 - 158));
  }
  SequenceBatch batch;
  for (std::uint64_t step = 0; step < 500; ++step) {
    text.fill_training(1, {step, 0, 0, 1}, 4, batch);
    for (const std::int32_t target : batch.targets) ASSERT_FALSE(held.contains(target));
  }
}

TEST_F(TokenTextTest, WideTokensAreLittleEndian) {
  const TokenText text(write(5000, 2), TokenKind::u16, 512, 16);
  SequenceBatch batch;
  text.fill_training(1, {}, 1, batch);
  for (const std::int32_t token : batch.tokens) EXPECT_EQ(token >> 8, 1);
}

TEST_F(TokenTextTest, UnusableFilesAreRefused) {
  EXPECT_THROW(TokenText("/nonexistent", TokenKind::bytes, 256, 16), std::invalid_argument);
  EXPECT_THROW(TokenText(write(33), TokenKind::bytes, 256, 16), std::invalid_argument) << "too short";
  EXPECT_NO_THROW(TokenText(write(34), TokenKind::bytes, 256, 16));
  EXPECT_THROW(TokenText(write(501), TokenKind::u16, 65536, 16), std::invalid_argument) << "half a token";
  try {
    const TokenText text(write(500), TokenKind::bytes, 200, 16);
    FAIL() << "tokens beyond the vocabulary";
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("250"));
    EXPECT_THAT(error.what(), testing::HasSubstr("200"));
  }
}

}  // namespace
}  // namespace llm::test
