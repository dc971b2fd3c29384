// What a training step costs beside the model's arithmetic, whose share is taken as processor time within the very same
// steps, and how close the arithmetic comes to its matrix products alone. Two ranks with one thread each, stage 3, the
// demo's size, 2,048 tokens a rank and step; both measure at once, so that both cores are busy in measurement and ruler
// alike.
#include <omp.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <strata/strata.h>

#include "bench/bench_rows.h"
#include "bench/timed_decoder.h"
#include "engine_pass.h"
#include "unit/llm/plain_memory.h"

namespace strata::bench {
namespace {

constexpr int rank_count = 2;
constexpr std::size_t batch_count = 8, seq_count = 256;  // 2,048 tokens
constexpr int steps_a_time = 2;                          // a step's update runs on into the next one

llm::DecoderOptions decoder_options() {
  llm::DecoderOptions options;
  options.batch = batch_count;
  options.seq = seq_count;
  options.parameters = Dtype::bf16;
  options.operand = llm::fastest_operand(Dtype::bf16);
  return options;
}

llm::SequenceBatch make_batch(const llm::Config& config, int rank) {
  llm::SequenceBatch batch;
  std::uint32_t state = 1 + static_cast<std::uint32_t>(rank);
  for (std::size_t i = 0; i < batch_count * seq_count; ++i) {
    state = state * 1664525 + 1013904223;
    batch.tokens.push_back(static_cast<std::int32_t>((state >> 16) % static_cast<std::uint32_t>(config.vocab_size)));
  }
  batch.targets = batch.tokens;
  std::rotate(batch.targets.begin(), batch.targets.begin() + 1, batch.targets.end());
  return batch;
}

struct StepTime {
  double step_s = 0;
  double arithmetic_s = 0;
};

class RankAtWork {
 public:
  RankAtWork(Communicator& communicator, std::barrier<>& together)
      : together_(together),
        model_(config_, decoder_options(), llm::test::random_parameters(config_, 1, 0.02f)),
        engine_(llm::make_units(config_), adamw({}), communicator, Options{}),
        timed_decoder_(*model_.decoder),
        pass_(config_, engine_, timed_decoder_),
        batch_(make_batch(config_, communicator.rank())) {
    engine_.initialize(llm::make_initializer(1));
    arithmetic_s();
    model_.decoder->products().reset_counts();
    arithmetic_s();
    model_.decoder->products().visit_counts(
        [&](const llm::ProductShape& shape, std::uint64_t count) { products_.emplace_back(shape, count); });
    for (const auto& [shape, count] : products_) {
      flops_ += shape.flops() * static_cast<double>(count);
      operand_count_ =
          std::max({operand_count_, static_cast<std::size_t>(shape.m * shape.k),
                    static_cast<std::size_t>(shape.k * shape.n), static_cast<std::size_t>(shape.m * shape.n)});
    }
    for (std::vector<float>* operand : {&a_, &b_, &c_}) operand->assign(2 * operand_count_, 0.01f);
  }

  double flops() const { return flops_; }

  // Forward and backward pass on parameters and gradients in plain memory: no engine.
  double arithmetic_s() {
    return together([&] { model_.run(batch_.tokens, batch_.targets, batch_count); });
  }

  // The same products, each as often, and nothing else.
  double products_s() {
    return together([&] {
      for (const auto& [shape, count] : products_) {
        for (std::uint64_t i = 0; i < count; ++i) {
          model_.decoder->products().run(shape, a_.data(), b_.data(), c_.data());
        }
      }
    });
  }

  // Of whole steps, less the time that this rank waited for a peer that still computed: seconds a step, and the
  // processor time that the model's own arithmetic took of them.
  StepTime step_time() {
    double waited_s = 0;
    timed_decoder_.take_arithmetic_s();
    const double all_s = together([&] {
      for (int i = 0; i < steps_a_time; ++i) {
        pass_.train(batch_, batch_count);
        waited_s += engine_.step({.lr = 1e-4, .clip_norm = 1.0}).waits.peer_s;
      }
    });
    return {(all_s - waited_s) / steps_a_time, timed_decoder_.take_arithmetic_s() / steps_a_time};
  }

 private:
  double together(const std::function<void()>& act) {
    together_.arrive_and_wait();
    return timed_s(act);
  }

  std::barrier<>& together_;
  const llm::Config config_ = llm::preset("demo");
  llm::test::PlainModel model_;
  Engine engine_;
  TimedDecoder timed_decoder_;
  llm::EnginePass pass_;
  const llm::SequenceBatch batch_;
  std::vector<std::pair<llm::ProductShape, std::uint64_t>> products_;
  double flops_ = 0;
  std::size_t operand_count_ = 0;
  std::vector<float> a_, b_, c_;
};

void measure_rank(Communicator& communicator, std::barrier<>& together, Report& report) {
  omp_set_num_threads(1);
  RankAtWork work(communicator, together);
  const bool reports = communicator.rank() == 0;
  if (report.wants("llm/arithmetic")) {
    const Paired paired = measure_timed_pairs([&] { return work.arithmetic_s(); }, [&] { return work.products_s(); });
    const Row row{"llm/arithmetic", work.flops() / paired.value_s / 1e9, "GFLOP/s", work.flops() / paired.limit_s / 1e9,
                  paired.ratio};
    const double tokens_per_s = static_cast<double>(batch_count * seq_count) / paired.value_s;
    if (reports) report.add(row, fmt::format("{:.0f} tokens/s a rank", tokens_per_s));
  }
  if (report.wants("llm/overhead")) {
    std::vector<double> steps, arithmetic, shares;
    work.step_time();  // does not count
    for (std::size_t i = 0; i < 9; ++i) {
      const StepTime time = work.step_time();
      steps.push_back(time.step_s);
      arithmetic.push_back(time.arithmetic_s);
      shares.push_back(time.arithmetic_s / time.step_s);
    }
    const Row row{"llm/overhead", median(steps), "s", median(arithmetic), median(shares)};
    if (reports) report.add(row, "a step without waiting for the peer, and the processor time of its arithmetic");
  }
}

void run(Report& report) {
  auto worlds = local_world(rank_count);
  std::barrier<> together(rank_count);
  std::vector<std::thread> ranks;
  for (auto& world : worlds) {
    ranks.emplace_back([&] {
      try {
        measure_rank(*world, together, report);
      } catch (const std::exception& error) {
        fmt::print(stderr, "llm_bench: {}\n", error.what());
        std::exit(1);  // the other rank waits at the barrier
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
  try {
    strata::bench::Report report(argc, argv);
    strata::bench::run(report);
    report.finish();
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "llm_bench: {}\n", error.what());
    return 1;
  }
}
