// A model whose gradients are simple functions of its parameters and of counters: quick, awkwardly shaped, and the same
// on any rank that computes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <strata/strata.h>

namespace strata::test {

// About 10,000 parameters in units of uneven size: tensors of 0 and 1 elements, fewer elements than ranks, groups,
// frozen tensors between trainable ones, a frozen unit, an empty one.
std::vector<Unit> toy_units();

enum class ToyGradients : std::uint8_t {
  random,  // depend on parameters, micro-batch and rank: any difference spreads
  exact,   // small integers that depend on the item alone: sums are exact in any order
};

// The parts of which a run is made, so that a test can do the same without an engine.
void toy_initial(const Tensor& tensor, std::size_t first, std::span<float> values);
double toy_weight(int rank, int step, int micro);  // uneven
// Items of a step are numbered over ranks and micro-batches, so that other world sizes can share the same ones out.
std::uint64_t toy_item(int rank, int world_size, int step, int micro);
std::uint64_t toy_key(std::string_view tensor, std::uint64_t item);
float toy_gradient(ToyGradients kind, std::uint64_t key, std::size_t i, float published, double scale);

struct ToyRun {
  Options options;
  int ranks = 1;
  int steps = 3;
  int accumulate = 1;
  ToyGradients gradients = ToyGradients::random;
  std::shared_ptr<const Optimizer> optimizer;  // default: AdamW with weight decay
  double clip_norm = 0.5;
  // Weight of a rank's micro-batch. Default: toy_weight.
  std::function<double(int rank, int step, int micro)> weight;
  // Called on each rank before each step ends.
  std::function<void(Engine& engine, int rank, int step)> before_step;
  // Called on each rank after each step.
  std::function<void(Engine& engine, int rank, int step)> after_step;
};

struct ToyResult {
  std::uint64_t state = 0;
  std::uint64_t published = 0;              // over all published values
  std::vector<StepReport> reports;          // of rank 0
  std::vector<std::uint64_t> device_bytes;  // counted, by rank
  std::uint64_t planned_bytes = 0;

  std::vector<double> norms() const;
};

// Trains over local_world(ranks), every rank a thread. Throws what the first failing rank threw. Checks that all ranks
// report the same.
ToyResult run_toy(const ToyRun& run);

// One rank's training in a world of the caller's.
ToyResult train_toy(Communicator& world, const ToyRun& run);

// One micro-batch: forward over all units, backward with gradients of this rank's items.
void toy_micro_batch(Engine& engine, const ToyRun& run, int rank, int world_size, int step, int micro);

// Runs `work(rank, communicator)` on a thread per rank; every rank's error text, empty where there was none.
std::vector<std::string> on_each_rank(int ranks, const std::function<void(int rank, Communicator& world)>& work,
                                      const Deadlines& deadlines = {});

}  // namespace strata::test
