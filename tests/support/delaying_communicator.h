// A communicator that dawdles: a seeded random delay before each call and sometimes after, to shake out orders of
// threads that a quiet machine never shows.
#pragma once

#include <chrono>
#include <random>
#include <thread>

#include <strata/communicator.h>

namespace strata::test {

class DelayingCommunicator : public Communicator {
 public:
  DelayingCommunicator(Communicator& inner, unsigned seed) : inner_(inner), random_(seed) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  std::string_view kind() const override { return inner_.kind(); }
  ExchangeBlock allocate(std::size_t bytes, Sharing sharing) override { return inner_.allocate(bytes, sharing); }
  void release(ExchangeBlock block) override { inner_.release(std::move(block)); }

  void all_gather(const void* source, void* target, std::size_t shard_count, Dtype dtype, const CallTag& tag) override {
    const Dawdle dawdle(*this);
    inner_.all_gather(source, target, shard_count, dtype, tag);
  }
  ReduceOutcome reduce_scatter(const void* source, std::size_t shard_count, Dtype dtype, const ReduceTarget& target,
                               const CallTag& tag) override {
    const Dawdle dawdle(*this);
    return inner_.reduce_scatter(source, shard_count, dtype, target, tag);
  }
  void all_reduce(std::span<double> values, const CallTag& tag) override {
    const Dawdle dawdle(*this);
    inner_.all_reduce(values, tag);
  }
  void all_reduce(std::span<std::uint64_t> values, const CallTag& tag) override {
    const Dawdle dawdle(*this);
    inner_.all_reduce(values, tag);
  }
  void barrier(const CallTag& tag) override { inner_.barrier(tag); }
  void abort(std::string_view cause) noexcept override { inner_.abort(cause); }
  void beat() noexcept override { inner_.beat(); }
  void set_deadlines(const Deadlines& deadlines) override { inner_.set_deadlines(deadlines); }
  CommunicatorCounters counters() const override { return inner_.counters(); }

 private:
  void delay() {
    const unsigned draw = random_();
    if (draw % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 3 % 200));
  }

  struct Dawdle {
    explicit Dawdle(DelayingCommunicator& owner) : owner(owner) { owner.delay(); }
    ~Dawdle() { owner.delay(); }
    DelayingCommunicator& owner;
  };

  Communicator& inner_;
  std::minstd_rand random_;
};

}  // namespace strata::test
