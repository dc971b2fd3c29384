#include "train_options.h"

#include <fmt/format.h>
#include <strata/bytes.h>
#include <strata/engine.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <stdexcept>

#include "decoder.h"

namespace llm {

Config TrainOptions::config() const { return config_file.empty() ? preset(preset_name) : read_config(config_file); }

strata::LrSchedule TrainOptions::schedule() const {
  constexpr std::int64_t warmup_most = 100, warmup_divisor = 10;
  const auto total = static_cast<std::int64_t>(steps);
  const std::int64_t wanted = warmup < 0 ? std::min(warmup_most, total / warmup_divisor) : warmup;
  strata::LrSchedule made;
  made.lr = lr;
  made.warmup_steps =
      static_cast<std::uint64_t>(std::clamp<std::int64_t>(wanted, 0, std::max<std::int64_t>(total - 1, 0)));
  made.total_steps = steps;
  made.shape = lr_shape == "constant" || steps == 0 ? strata::LrShape::constant
               : lr_shape == "linear"               ? strata::LrShape::linear
                                                    : strata::LrShape::cosine;
  return made;
}

strata::Dtype TrainOptions::operand(strata::Dtype parameters) const {
  if (products == "auto") return fastest_operand(parameters);
  return products == "bf16" ? strata::Dtype::bf16 : strata::Dtype::f32;
}

strata::Options TrainOptions::with_activation_room(const strata::Options& engine_options) const {
  strata::Options made = engine_options;
  const Config model = config();
  if (!recompute || model.num_hidden_layers < 2) return made;
  const std::uint64_t input_bytes = batch * seq * static_cast<std::uint64_t>(model.hidden_size) * sizeof(float);
  const std::uint64_t least =
      static_cast<std::uint64_t>(model.num_hidden_layers - 1) * strata::stashed_bytes(input_bytes);
  if (made.activation_memory_bytes == 0) made.activation_memory_bytes = least;
  if (made.activation_memory_bytes < least) {
    throw std::invalid_argument(fmt::format(
        "--strata-activation-memory {} is too small for --recompute, which stashes the inputs of {} blocks: "
        "leave it out, or give at least {} ({} bytes)",
        strata::format_bytes(made.activation_memory_bytes), model.num_hidden_layers - 1, strata::format_bytes(least),
        least));
  }
  return made;
}

void add_train_flags(CLI::App& app, TrainOptions& options) {
  static const std::map<std::string, TokenKind> kinds = {{"bytes", TokenKind::bytes}, {"u16", TokenKind::u16}};
  constexpr std::size_t extent_most = std::size_t{1} << 20;
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  auto* preset_flag = app.add_option("--preset", options.preset_name, "tiny, demo, 124m or smollm2")
                          ->check(CLI::IsMember({"tiny", "demo", "124m", "smollm2"}))
                          ->capture_default_str();
  app.add_option("--config", options.config_file, "a config.json as Hugging Face writes it")
      ->check(CLI::ExistingFile)
      ->excludes(preset_flag);
  app.add_option("--data", options.data_file, "the text to learn")->required()->check(CLI::ExistingFile);
  app.add_option("--tokens", options.tokens, "how --data is read: bytes or u16")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case).description("{bytes,u16}"));
  app.add_option("--steps", options.steps)->capture_default_str();
  app.add_option("--batch", options.batch, "sequences of a rank and micro-batch")
      ->check(CLI::Range(std::size_t{1}, extent_most))
      ->capture_default_str();
  app.add_option("--seq", options.seq, "tokens of a sequence")
      ->check(CLI::Range(std::size_t{1}, extent_most))
      ->capture_default_str();
  app.add_option("--accumulate", options.accumulate, "micro-batches of a step")
      ->check(CLI::Range(std::size_t{1}, extent_most))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the initial parameters, what is read, and the sample")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "of the arithmetic; 0: OMP_NUM_THREADS, or all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--lr", options.lr, "the largest learning rate")->check(CLI::Range(0.0, 1e3))->capture_default_str();
  app.add_option("--lr-shape", options.lr_shape, "after the warm-up")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "steps; -1: a tenth of all, at most 100")
      ->check(CLI::Range(std::int64_t{-1}, std::int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--clip", options.clip, "norm that gradients are scaled down to; 0: never")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay)->check(CLI::Range(0.0, 1e3))->capture_default_str();
  app.add_option("--beta1", options.beta1)->check(CLI::Range(0.0, 0.999999))->capture_default_str();
  app.add_option("--beta2", options.beta2)->check(CLI::Range(0.0, 0.999999))->capture_default_str();
  app.add_option("--eval-every", options.eval_every, "steps; 0: only at the end")->capture_default_str();
  app.add_option("--eval-sequences", options.eval_sequences, "held-out sequences of an evaluation, of all ranks")
      ->check(CLI::Range(std::size_t{1}, extent_most))
      ->capture_default_str();
  app.add_option("--sample", options.sample_count, "tokens of the sample at the end")
      ->check(CLI::Range(std::size_t{0}, extent_most))
      ->capture_default_str();
  app.add_option("--products", options.products, "what matrix products read with bf16 parameters")
      ->check(CLI::IsMember({"auto", "f32", "bf16"}))
      ->capture_default_str();
  app.add_flag("--recompute", options.recompute,
               "least memory, a third more arithmetic: keep each block's input alone, where --strata-activations says "
               "(device, host or nvme), and compute the block again in the backward pass");
  app.add_option("--log", options.log_file, "JSON Lines, one object a step");
  app.add_flag("--state-hash", options.state_hash, "end with a hash over all state");
}

}  // namespace llm
