// A text as tokens: which part is trained on, which is held out, and which sequences a rank reads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace llm {

enum class TokenKind : std::uint8_t { bytes, u16 };  // one token a byte, or little-endian u16

struct SequenceBatch {
  std::vector<std::int32_t> tokens;   // (B, T)
  std::vector<std::int32_t> targets;  // (B, T): the token after each, or ignored_target
};

// Whose micro-batch it is. Together with the seed it decides all that is read.
struct MicroBatchIndex {
  std::uint64_t step = 0, micro_batch = 0;
  int rank = 0, world_size = 1;
};

class TokenText {
 public:
  // Reads the file. A twentieth of it, at least one sequence, is held out: the last part of each of up to 64 equal
  // parts, each at least four sequences long (a short text: its end). Throws std::invalid_argument when it cannot be
  // read, is shorter than two sequences and their targets, or holds a token of vocab_size or more.
  TokenText(const std::filesystem::path& file, TokenKind kind, std::int64_t vocab_size, std::size_t seq);

  // B sequences of the training part at positions drawn from (seed, index) alone.
  void fill_training(std::uint64_t seed, const MicroBatchIndex& index, std::size_t batch, SequenceBatch& out) const;

  // Numbers [first, first + B) of `spread` held-out sequences that lie evenly over all of them; behind the last one all
  // is ignored. REQUIRES spread <= held_out_count().
  void fill_held_out(std::size_t first, std::size_t batch, std::size_t spread, SequenceBatch& out) const;
  std::size_t held_out_count() const;  // sequences

  std::span<const std::int32_t> held_out() const { return std::span(tokens_).subspan(training_count_); }
  std::size_t training_count() const { return training_count_; }  // tokens
  std::size_t seq() const { return seq_; }

 private:
  std::vector<std::int32_t> tokens_;  // training, then held out
  std::size_t seq_ = 0;
  std::size_t training_count_ = 0;
};

}  // namespace llm
