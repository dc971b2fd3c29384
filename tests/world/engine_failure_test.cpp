// What a rank hears when another one fails, disagrees or leaves; and that chance in the lanes changes nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <stdexcept>

#include "support/delaying_communicator.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void initialize(Engine& engine) {
  engine.initialize([](const Tensor& tensor, std::size_t first, std::span<float> values) {
    fill_normal(values, 5, tensor.name, first, 1.0f);
  });
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Settings, that_differ_are_named_with_both_sides_on_every_rank) {
  struct Case {
    std::function<void(Options&, std::vector<Unit>&, std::shared_ptr<const Optimizer>&)> change;
    std::string one, other;
  };
  const std::vector<Case> cases = {
      {[](auto& options, auto&, auto&) { options.stage = 2; }, "stage=3", "stage=2"},
      {[](auto& options, auto&, auto&) { options.dtype = Dtype::f32; }, "dtype=bf16", "dtype=f32"},
      {[](auto& options, auto&, auto&) { options.reduce = ReducePolicy::step; }, "reduce=micro_batch", "reduce=step"},
      {[](auto& options, auto&, auto&) { options.leases = 3; }, "leases=2", "leases=3"},
      {[](auto&, auto& units, auto&) {
         units[0].tensors[0].shape = {61, 38};
       },
       "table [61,37]", "table [61,38]"},
      {[](auto&, auto& units, auto&) { units[2].tensors[0].training = Training::frozen; }, "trainable", "frozen"},
      {[](auto&, auto&, auto& optimizer) { optimizer = adamw({.beta1 = 0.5f}); }, "adamw", "0.5"},
  };
  for (const Case& difference : cases) {
    const auto errors = on_each_rank(3, [&](int rank, Communicator& world) {
      Options options;
      std::vector<Unit> units = toy_units();
      std::shared_ptr<const Optimizer> optimizer = adamw();
      if (rank == 1) difference.change(options, units, optimizer);
      Engine engine(units, optimizer, world, options);
    });
    for (const std::string& error : errors) {
      EXPECT_THAT(error, AllOf(HasSubstr("mismatch"), HasSubstr("rank 0 has"), HasSubstr("rank 1 has"),
                               HasSubstr(difference.one), HasSubstr(difference.other)));
    }
  }
}

TEST(Calls, that_differ_are_named_with_both_sides_on_every_rank) {
  for (int stage = 0; stage <= 3; ++stage) {
    const auto start = std::chrono::steady_clock::now();
    const auto errors = on_each_rank(3, [&](int rank, Communicator& world) {
      Options options;
      options.stage = stage;
      Engine engine(toy_units(), adamw(), world, options);
      initialize(engine);
      engine.micro_batch();
      for (int i = 0; i < 2; ++i) {
        const Unit& unit = engine.forward_order()[rank == 2 && i == 1 ? 1 : 2];
        GradLease grads = engine.gradients(unit);
        grads.zero();
        grads.commit();
      }
      engine.step({});
    });
    for (const std::string& error : errors) {
      EXPECT_THAT(error, AllOf(HasSubstr("mismatch"), HasSubstr("rank 0"), HasSubstr("rank 2"), HasSubstr("commit")));
    }
    EXPECT_LT(seconds_since(start), 5);
  }
}

TEST(Calls, another_rate_on_one_rank_is_a_mismatch_and_the_engine_stays_failed) {
  const auto errors = on_each_rank(2, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, {});
    initialize(engine);
    engine.micro_batch();
    std::string first;
    try {
      engine.step({.lr = rank == 0 ? 0.5 : 0.25});
    } catch (const Error& error) {
      first = error.what();
    }
    EXPECT_THAT(first, AllOf(HasSubstr("mismatch"), HasSubstr("lr 0.5"), HasSubstr("lr 0.25")));
    for (int i = 0; i < 2; ++i) {
      try {
        engine.gather(engine.forward_order()[0]);
        ADD_FAILURE() << "a failed engine went on";
      } catch (const Error& error) {
        EXPECT_EQ(error.what(), first);
      }
    }
    engine.step_count();
    throw std::runtime_error("seen");
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "seen");
}

// One rank throws outside of any collective: the others hear of it at once, with what it was doing.
TEST(Failure, exception_in_one_rank_reaches_all) {
  const auto start = std::chrono::steady_clock::now();
  const auto errors = on_each_rank(4, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, {});
    initialize(engine);
    for (int step = 0; step < 50; ++step) {
      ToyRun run;
      toy_micro_batch(engine, run, rank, world.size(), step, 0);
      if (rank == 2 && step == 20) throw std::bad_alloc();
      engine.step({});
    }
  });
  EXPECT_LT(seconds_since(start), 5);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (rank == 2) {
      EXPECT_EQ(errors[rank], "std::bad_alloc");
    } else {
      EXPECT_THAT(errors[rank], AllOf(HasSubstr("peer_lost"), HasSubstr("rank 2"), HasSubstr("step 21")));
    }
  }
}

TEST(Failure, a_rank_that_leaves_early_is_named) {
  const auto errors = on_each_rank(2, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, {});
    initialize(engine);
    if (rank == 1) return;
    engine.micro_batch();
    engine.step({});
  });
  EXPECT_THAT(errors[0], AllOf(HasSubstr("peer_lost"), HasSubstr("rank 1")));
  EXPECT_EQ(errors[1], "");
}

TEST(Chance, delays_in_the_lanes_change_no_bit) {
  ToyRun run;
  run.ranks = 3;
  run.steps = 40;
  run.accumulate = 2;
  run.clip_norm = 0.05;
  for (const int stage : {1, 3}) {
    run.options.stage = stage;
    run.options.threads = 2;
    const ToyResult quiet = run_toy(run);
    for (unsigned seed = 0; seed < 3; ++seed) {
      std::vector<std::uint64_t> states(3);
      const auto errors = on_each_rank(run.ranks, [&](int rank, Communicator& world) {
        DelayingCommunicator slow(world, seed * 10 + static_cast<unsigned>(rank));
        states[static_cast<std::size_t>(rank)] = train_toy(slow, run).state;
      });
      for (const std::string& error : errors) EXPECT_EQ(error, "") << "seed " << seed;
      for (const std::uint64_t state : states) EXPECT_EQ(state, quiet.state) << "seed " << seed << ", stage " << stage;
    }
  }
}

TEST(Chance, five_hundred_steps_with_delays_stay_exact) {
  ToyRun run;
  run.ranks = 2;
  run.steps = 500;
  run.options.prefetch = 3;
  const ToyResult quiet = run_toy(run);
  const auto errors = on_each_rank(run.ranks, [&](int rank, Communicator& world) {
    DelayingCommunicator slow(world, 77u + static_cast<unsigned>(rank));
    EXPECT_EQ(train_toy(slow, run).state, quiet.state);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST(Scale, ten_thousand_small_tensors_start_and_step_without_growing_slower) {
  std::vector<Unit> units(4);
  for (std::size_t i = 0; i < 10000; ++i) {
    Unit& unit = units[i % 4];
    unit.name = fmt::format("unit.{}", i % 4);
    unit.tensors.push_back({.name = fmt::format("t{}", i), .shape = {static_cast<std::int64_t>(i % 13)}});
  }
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto world = solo_world();
  Engine engine(units, adamw(), *world, {});
  initialize(engine);
  std::vector<double> seconds;
  const auto descriptors = open_descriptors();
  for (int step = 0; step < 200; ++step) {
    const auto start = std::chrono::steady_clock::now();
    engine.micro_batch();
    for (const Unit& unit : engine.backward_order()) {
      GradLease grads = engine.gradients(unit);
      grads.zero();
      grads.commit();
    }
    engine.step({});
    seconds.push_back(seconds_since(start));
  }
  EXPECT_EQ(open_descriptors(), descriptors);
  std::nth_element(seconds.begin(), seconds.begin() + 25, seconds.begin() + 50);
  std::nth_element(seconds.begin() + 150, seconds.begin() + 175, seconds.end());
  EXPECT_LT(seconds[175], 5 * seconds[25]);  // growth with the step count would be far beyond
}

}  // namespace
}  // namespace strata::test
