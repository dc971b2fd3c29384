#include "train.h"

#include <fmt/format.h>
#include <omp.h>
#include <strata/bytes.h>
#include <strata/engine.h>
#include <strata/error.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "decoder.h"
#include "engine_pass.h"
#include "prediction.h"
#include "progress_line.h"
#include "run_totals.h"
#include "sampling.h"
#include "train_log.h"
#include "units.h"

namespace llm {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

ProgressLine::Mode progress_mode(const strata::Options& options, int rank) {
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (rank != 0 || options.progress == strata::Progress::off) return ProgressLine::Mode::off;
  return terminal ? ProgressLine::Mode::renewed : ProgressLine::Mode::lines;
}

std::shared_ptr<const strata::Optimizer> make_optimizer(const TrainOptions& options) {
  strata::AdamWOptions adamw;
  adamw.beta1 = static_cast<float>(options.beta1);
  adamw.beta2 = static_cast<float>(options.beta2);
  adamw.weight_decay = static_cast<float>(options.weight_decay);
  return strata::adamw(adamw);
}

DecoderOptions decoder_options(const TrainOptions& options, const strata::Options& engine_options) {
  DecoderOptions made;
  made.batch = options.batch;
  made.seq = options.seq;
  made.parameters = engine_options.dtype;
  made.gradients = engine_options.grad_dtype;
  made.operand = options.operand(engine_options.dtype);
  made.recompute = options.recompute;
  return made;
}

class Trainer {
 public:
  Trainer(const TrainOptions& options, const strata::Options& engine_options, strata::Communicator& communicator)
      : options_(options),
        rank_(communicator.rank()),
        world_size_(communicator.size()),
        config_(options.config()),
        text_(options.data_file, options.tokens, config_.vocab_size, options.seq),
        decoder_(make_decoder(config_, decoder_options(options, engine_options))),
        engine_(timed_units(config_, *decoder_, decoder_options(options, engine_options), communicator),
                make_optimizer(options), communicator, engine_options),
        pass_(config_, engine_, *decoder_),
        schedule_(options.schedule()),
        log_(rank_ == 0 && !options.log_file.empty() ? TrainLog(options.log_file) : TrainLog()),
        progress_(progress_mode(engine_options, rank_)) {}

  void run() {
    if (rank_ == 0) {
      for (const std::string& warning : engine_.warnings()) fmt::print(stderr, "warning: {}\n", warning);
    }
    engine_.initialize(make_initializer(options_.seed));
    const strata::Plan& plan = engine_.plan();
    predicted_s_ = plan.predicted_step_s + static_cast<double>(options_.accumulate - 1) * plan.predicted_micro_batch_s;
    start_ = Clock::now();
    while (engine_.step_count() < options_.steps) {
      take_step();
      const std::uint64_t done = engine_.step_count();
      if (options_.eval_every > 0 && done % options_.eval_every == 0 && done < options_.steps) evaluate();
    }
    progress_.clear();
    const double loss = evaluate();
    if (rank_ == 0) fmt::print("evaluation loss {:.4f}\n", loss);
    print_sample();
    if (rank_ == 0) print_bytes();
    if (options_.state_hash) {
      const std::uint64_t hash = engine_.state_hash();
      if (rank_ == 0) fmt::print("state {:016x}\n", hash);
    }
    std::fflush(stdout);
  }

 private:
  void take_step() {
    const Clock::time_point start = Clock::now();
    const std::uint64_t step = engine_.step_count();
    for (std::size_t micro_batch = 0; micro_batch < options_.accumulate; ++micro_batch) {
      text_.fill_training(options_.seed, {step, micro_batch, rank_, world_size_}, options_.batch, batch_);
      pass_.train(batch_, options_.batch);
    }
    const float lr = schedule_.at(step);
    const strata::StepReport report = engine_.step({.lr = lr, .clip_norm = options_.clip});
    if (rank_ != 0) return;
    const double seconds = seconds_since(start);
    log_.write_step(report, {lr, seconds, predicted_s_});
    totals_.add(report, seconds);
    if (!report.applied) {
      progress_.clear();
      fmt::print(stderr, "step {} skipped: {}\n", report.step, report.reason);
    }
    const double per_step = seconds_since(start_) / static_cast<double>(report.step);
    ProgressState state;
    state.step = report.step;
    state.steps = options_.steps;
    state.loss = report.loss;
    state.tokens_per_s = report.weight / per_step;
    state.left_s = per_step * static_cast<double>(options_.steps - report.step);
    state.device_bytes = report.device_bytes;
    state.device_budget_bytes = engine_.plan().device_budget_bytes;
    state.host_bytes = report.host_bytes;
    state.nvme_bytes = report.nvme_bytes;
    progress_.show(state);
  }

  // Mean loss of held-out sequences from everywhere in the text, shared out over the ranks.
  double evaluate() {
    const auto evaluation = engine_.evaluation();
    const std::size_t sequences = std::min(options_.eval_sequences, text_.held_out_count());
    const std::size_t a_round = options_.batch * static_cast<std::size_t>(world_size_);
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t first = 0; first < sequences; first += a_round) {
      text_.fill_held_out(first + static_cast<std::size_t>(rank_) * options_.batch, options_.batch, sequences, batch_);
      const LossSum loss = pass_.evaluate(batch_, options_.batch);
      sum += loss.mean * static_cast<double>(loss.count);
      count += loss.count;
    }
    const double weight = static_cast<double>(count);
    const double mean = engine_.mean_over_ranks(count == 0 ? 0.0 : sum / weight, weight);
    if (rank_ == 0) log_.write_evaluation(engine_.step_count(), mean, sequences * text_.seq());
    return mean;
  }

  void print_sample() {
    if (options_.sample_count == 0) return;
    constexpr std::size_t prompt_most = 32;
    const auto evaluation = engine_.evaluation();
    const auto from = text_.held_out().first(std::min({prompt_most, options_.seq, text_.held_out().size()}));
    SamplingOptions sampling;
    sampling.count = options_.sample_count;
    sampling.seed = options_.seed;
    sampling.window = options_.seq;
    sampling.vocab_size = static_cast<std::size_t>(config_.vocab_size);
    const std::vector<std::int32_t> text =
        sample({from.begin(), from.end()}, sampling, [&](auto tokens, std::size_t last, std::span<float> out) {
          pass_.next_logits(tokens, last, rank_ == 0 ? out : std::span<float>());
        });
    if (rank_ != 0) return;
    fmt::print("sample:\n");
    if (options_.tokens == TokenKind::bytes) {
      fmt::print("{}\n", printable(text));
    } else {
      fmt::print("{}\n", fmt::join(text, " "));
    }
  }

  void print_bytes() const {
    fmt::print("{}\n", engine_.plan().table());
    fmt::print("{}", totals_.table());
    fmt::print("the model's activations and scratch, beside strata's memory: {}\n",
               strata::format_bytes(decoder_->workspace_bytes()));
  }

  const TrainOptions& options_;
  const int rank_, world_size_;
  const Config config_;
  const TokenText text_;
  std::unique_ptr<Decoder> decoder_;
  strata::Engine engine_;
  EnginePass pass_;
  const strata::LrSchedule schedule_;
  TrainLog log_;
  ProgressLine progress_;
  RunTotals totals_;
  SequenceBatch batch_;
  Clock::time_point start_{};
  double predicted_s_ = 0;
};

}  // namespace

void train(const TrainOptions& options, const strata::Options& given_options, strata::Communicator& communicator) {
  if (options.threads > 0) omp_set_num_threads(options.threads);
  const strata::Options engine_options = options.with_activation_room(given_options);
  try {
    Trainer(options, engine_options, communicator).run();
  } catch (const strata::Error& error) {
    if (error.code() != strata::ErrorCode::ended) throw;  // asked for the plan alone
    if (communicator.rank() == 0) fmt::print("{}\n", error.text());
  }
}

}  // namespace llm
