// What `llm train` is asked for on its command line, beside strata's own options.
#pragma once

#include <strata/optimizer.h>
#include <strata/options.h>

#include <cstdint>
#include <string>

#include "config.h"
#include "token_text.h"

namespace CLI {
class App;
}

namespace llm {

struct TrainOptions {
  std::string preset_name = "demo";
  std::string config_file;
  std::string data_file;
  std::string log_file;
  TokenKind tokens = TokenKind::bytes;
  std::uint64_t steps = 100;
  std::size_t batch = 4;  // sequences of a rank and micro-batch
  std::size_t seq = 256;
  std::size_t accumulate = 1;  // micro-batches of a step
  std::uint64_t seed = 1;
  int threads = 0;  // of the arithmetic; 0: OpenMP's default

  double lr = 1e-3;
  std::string lr_shape = "cosine";
  std::int64_t warmup = -1;  // steps; -1: a tenth, at most 100
  double clip = 1.0;
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.95;

  std::uint64_t eval_every = 0;      // steps; 0: only at the end
  std::size_t eval_sequences = 128;  // of all ranks together
  std::size_t sample_count = 160;    // tokens of the sample at the end
  std::string products = "auto";     // what matrix products read with bf16 parameters: f32 or bf16
  bool recompute = false;            // keep each block's input alone, in strata, and compute the rest again
  bool state_hash = false;

  Config config() const;  // throws std::invalid_argument
  strata::LrSchedule schedule() const;
  strata::Dtype operand(strata::Dtype parameters) const;

  // With recompute: the same with room to stash the inputs of all blocks but the last. Throws std::invalid_argument
  // where a smaller room was asked for.
  strata::Options with_activation_room(const strata::Options& engine_options) const;
};

// Adds the flags to the subcommand; after parsing, `options` has the values.
void add_train_flags(CLI::App& app, TrainOptions& options);

}  // namespace llm
