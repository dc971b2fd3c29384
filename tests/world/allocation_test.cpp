// Nothing on the step path allocates after the first step: on no thread of any rank.
#include <gtest/gtest.h>

#include <barrier>

#include "support/allocation_count.h"
#include "support/fresh_folder.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

// One step as a user writes it, with gradients that need no memory of the test's.
void train_step(Engine& engine) {
  for (int micro = 0; micro < 2; ++micro) {
    engine.micro_batch({.weight = 3});
    engine.record_loss(1.0);
    for (const Unit& unit : engine.forward_order()) engine.gather(unit);
    for (const Unit& unit : engine.backward_order()) {
      const ParamLease params = engine.gather(unit);
      GradLease grads = engine.gradients(unit);
      for (const Tensor& tensor : unit.tensors) {
        params.bytes(tensor.name);
        if (tensor.training == Training::frozen) continue;
        for (float& g : grads.f32(tensor.name)) g = 0.25f;
      }
      grads.commit();
    }
  }
  engine.step({.lr = 0.01, .clip_norm = 1.0});
}

// How often anything was allocated in three steps after the second one.
std::uint64_t allocations_after_the_second_step(int ranks, const Options& options) {
  std::uint64_t counted = 0;
  std::barrier together(ranks);
  const auto errors = on_each_rank(ranks, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options);
    engine.initialize(
        [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 1.0f); });
    for (int step = 0; step < 2; ++step) train_step(engine);
    together.arrive_and_wait();
    if (rank == 0) start_counting_allocations();
    together.arrive_and_wait();
    for (int step = 0; step < 3; ++step) train_step(engine);
    together.arrive_and_wait();
    if (rank == 0) counted = stop_counting_allocations();
    together.arrive_and_wait();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return counted;
}

TEST(StepPath, allocates_nothing_after_the_first_step) {
  for (const int ranks : {1, 2}) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const ReducePolicy policy : {ReducePolicy::micro_batch, ReducePolicy::step}) {
        Options options;
        options.stage = stage;
        options.reduce = policy;
        options.threads = 2;
        EXPECT_EQ(allocations_after_the_second_step(ranks, options), 0u) << "stage " << stage << ", ranks " << ranks;
      }
    }
  }
}

TEST(StepPath, allocates_nothing_with_state_on_nvme) {
  const FreshFolder folder;
  for (const IoBackend io : {IoBackend::automatic, IoBackend::threads}) {
    for (const Home params : {Home::device, Home::nvme}) {
      Options options;
      options.nvme_dirs = {folder.path()};
      options.io = io;
      options.params = params;
      options.optimizer = options.gradients = Home::nvme;
      options.chunk = 2048;
      EXPECT_EQ(allocations_after_the_second_step(2, options), 0u) << "params " << static_cast<int>(params);
    }
  }
}

}  // namespace
}  // namespace strata::test
