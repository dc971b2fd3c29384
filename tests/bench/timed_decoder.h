// A decoder that adds up the processor time of its own calls on the calling thread: what else runs in between, on this
// thread or another one of the same core, is not in it.
#pragma once

#include <time.h>

#include <utility>

#include "decoder.h"

namespace strata::bench {

class TimedDecoder final : public llm::Decoder {
 public:
  // REQUIRES an OpenMP team of one, or the team's other threads are missed. `decoder` outlives this.
  explicit TimedDecoder(llm::Decoder& decoder) : decoder_(decoder) {}

  double take_arithmetic_s() { return std::exchange(arithmetic_s_, 0.0); }

  void embed(const llm::ParameterSource& unit, std::span<const std::int32_t> tokens, std::size_t batch) override {
    const Clock clock(arithmetic_s_);
    decoder_.embed(unit, tokens, batch);
  }
  void forward_block(std::size_t layer, const llm::ParameterSource& unit) override {
    const Clock clock(arithmetic_s_);
    decoder_.forward_block(layer, unit);
  }
  llm::LossSum loss(const llm::HeadParameters& parameters, std::span<const std::int32_t> targets) override {
    const Clock clock(arithmetic_s_);
    return decoder_.loss(parameters, targets);
  }
  void logits(const llm::HeadParameters& parameters, std::size_t first, std::size_t count,
              std::span<float> out) override {
    const Clock clock(arithmetic_s_);
    decoder_.logits(parameters, first, count, out);
  }
  llm::LossSum train_head(const llm::HeadParameters& parameters, std::span<const std::int32_t> targets,
                          double loss_scale, const llm::HeadGradients& gradients) override {
    const Clock clock(arithmetic_s_);
    return decoder_.train_head(parameters, targets, loss_scale, gradients);
  }
  void backward_block(std::size_t layer, const llm::ParameterSource& unit, llm::GradientTarget& gradients) override {
    const Clock clock(arithmetic_s_);
    decoder_.backward_block(layer, unit, gradients);
  }
  void backward_embed(llm::GradientTarget& gradients) override {
    const Clock clock(arithmetic_s_);
    decoder_.backward_embed(gradients);
  }

  bool recomputes() const override { return decoder_.recomputes(); }
  std::span<float> block_input() override { return decoder_.block_input(); }
  llm::Products& products() override { return decoder_.products(); }
  std::size_t workspace_bytes() const override { return decoder_.workspace_bytes(); }

 private:
  class Clock {
   public:
    explicit Clock(double& sum_s) : sum_s_(sum_s), begin_s_(thread_cpu_s()) {}
    ~Clock() { sum_s_ += thread_cpu_s() - begin_s_; }
    Clock(const Clock&) = delete;
    Clock& operator=(const Clock&) = delete;

   private:
    static double thread_cpu_s() {
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
    double& sum_s_;
    const double begin_s_;
  };

  llm::Decoder& decoder_;
  double arithmetic_s_ = 0;
};

}  // namespace strata::bench
