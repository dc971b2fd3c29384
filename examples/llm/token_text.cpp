#include "token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/cross_entropy.h"

namespace llm {

namespace {

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): each value of `state` gives one well mixed number.
std::uint64_t mix(std::uint64_t state) {
  state += 0x9E3779B97F4A7C15u;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
  return state ^ (state >> 31);
}

std::vector<std::int32_t> read_tokens(const std::filesystem::path& file, TokenKind kind) {
  std::ifstream stream(file, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) throw std::invalid_argument(fmt::format("--data '{}' cannot be read", file.string()));
  std::vector<std::int32_t> tokens;
  if (kind == TokenKind::bytes) {
    tokens.reserve(bytes.size());
    for (const char byte : bytes) tokens.push_back(static_cast<unsigned char>(byte));
    return tokens;
  }
  if (bytes.size() % 2 != 0) {
    throw std::invalid_argument(fmt::format("--data '{}' has an odd number of bytes: no u16 tokens", file.string()));
  }
  tokens.reserve(bytes.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    tokens.push_back(static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8);
  }
  return tokens;
}

// Moves the last `held_out` / `pieces` tokens of each of as many parts behind all others, in order, so that what is
// held out comes from everywhere in the text: a book's end is written in another tone than its beginning.
void move_held_out_back(std::vector<std::int32_t>& tokens, std::size_t held_out, std::size_t pieces) {
  std::vector<std::int32_t> training, back;
  training.reserve(tokens.size());
  back.reserve(held_out);
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t end = tokens.size() * (piece + 1) / pieces;
    const std::size_t begin = tokens.size() * piece / pieces;
    const std::size_t cut = end - (held_out * (piece + 1) / pieces - held_out * piece / pieces);
    training.insert(training.end(), tokens.data() + begin, tokens.data() + cut);
    back.insert(back.end(), tokens.data() + cut, tokens.data() + end);
  }
  training.insert(training.end(), back.begin(), back.end());
  tokens = std::move(training);
}

}  // namespace

TokenText::TokenText(const std::filesystem::path& file, TokenKind kind, std::int64_t vocab_size, std::size_t seq)
    : tokens_(read_tokens(file, kind)), seq_(seq) {
  constexpr std::size_t held_out_divisor = 20;
  const std::size_t needed = 2 * (seq + 1);
  if (tokens_.size() < needed) {
    throw std::invalid_argument(fmt::format("--data '{}' has {} tokens: sequences of {} need at least {}",
                                            file.string(), tokens_.size(), seq, needed));
  }
  const auto largest = std::max_element(tokens_.begin(), tokens_.end());
  if (*largest >= vocab_size) {
    throw std::invalid_argument(fmt::format("--data '{}' holds token {} at position {}: the vocabulary has {}",
                                            file.string(), *largest, largest - tokens_.begin(), vocab_size));
  }
  constexpr std::size_t pieces_most = 64;
  constexpr std::size_t sequences_a_piece = 4;
  const std::size_t held_out = std::max(tokens_.size() / held_out_divisor, seq + 1);
  move_held_out_back(tokens_, held_out,
                     std::clamp<std::size_t>(held_out / (sequences_a_piece * (seq + 1)), 1, pieces_most));
  training_count_ = tokens_.size() - held_out;
}

void TokenText::fill_training(std::uint64_t seed, const MicroBatchIndex& index, std::size_t batch,
                              SequenceBatch& out) const {
  out.tokens.resize(batch * seq_);
  out.targets.resize(batch * seq_);
  std::uint64_t state = mix(seed);
  state = mix(state ^ index.step);
  state = mix(state ^ index.micro_batch);
  state = mix(state ^ static_cast<std::uint64_t>(index.world_size));
  state = mix(state ^ static_cast<std::uint64_t>(index.rank));
  for (std::size_t row = 0; row < batch; ++row) {
    const std::size_t start = mix(state + row) % (training_count_ - seq_);
    const auto from = tokens_.begin() + static_cast<std::ptrdiff_t>(start);
    std::copy_n(from, seq_, out.tokens.begin() + static_cast<std::ptrdiff_t>(row * seq_));
    std::copy_n(from + 1, seq_, out.targets.begin() + static_cast<std::ptrdiff_t>(row * seq_));
  }
}

std::size_t TokenText::held_out_count() const { return (tokens_.size() - training_count_ - 1) / seq_; }

void TokenText::fill_held_out(std::size_t first, std::size_t batch, std::size_t spread, SequenceBatch& out) const {
  out.tokens.assign(batch * seq_, 0);
  out.targets.assign(batch * seq_, ignored_target);
  for (std::size_t row = 0; row < batch && first + row < spread; ++row) {
    const std::size_t sequence = (first + row) * held_out_count() / spread;
    const auto from = tokens_.begin() + static_cast<std::ptrdiff_t>(training_count_ + sequence * seq_);
    std::copy_n(from, seq_, out.tokens.begin() + static_cast<std::ptrdiff_t>(row * seq_));
    std::copy_n(from + 1, seq_, out.targets.begin() + static_cast<std::ptrdiff_t>(row * seq_));
  }
}

}  // namespace llm
