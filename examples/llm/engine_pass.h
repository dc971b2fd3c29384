// The decoder on an engine: what is gathered when, and what is committed. This is how a model is wrapped.
#pragma once

#include <strata/engine.h>

#include <cstdint>
#include <span>
#include <vector>

#include "config.h"
#include "decoder.h"
#include "token_text.h"

namespace llm {

class EnginePass {
 public:
  // All must outlive the pass. `engine` has the units of make_units(config).
  EnginePass(const Config& config, strata::Engine& engine, Decoder& decoder);

  // One micro-batch, forward and backward; its weight is the number of targets that count.
  void train(const SequenceBatch& batch, std::size_t sequence_count);

  // Forward alone. Call within the scope of engine.evaluation().
  LossSum evaluate(const SequenceBatch& batch, std::size_t sequence_count);

  // Logits (V) after the last of `tokens`, one sequence. With an empty `out` only the units are gathered: every rank
  // must make the same calls, but only one needs the numbers.
  void next_logits(std::span<const std::int32_t> tokens, std::size_t last, std::span<float> out);

 private:
  enum class Inputs : std::uint8_t { dropped, stashed };  // of blocks, for a backward pass that computes them again
  void forward(std::span<const std::int32_t> tokens, std::size_t sequence_count, Inputs inputs);
  void gather_all();
  std::size_t layer_count() const { return units_.size() - 2; }

  const Config& config_;
  strata::Engine& engine_;
  Decoder& decoder_;
  const std::vector<strata::Unit> units_;  // embed, blocks, head
};

}  // namespace llm
