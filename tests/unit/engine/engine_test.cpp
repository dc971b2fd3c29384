// What a user may do with an engine, and what the engine says when they may not.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <thread>

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

template <typename Function>
std::string error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Commits gradients of `value` for all units.
void commit_all(Engine& engine, float value) {
  for (const Unit& unit : engine.backward_order()) {
    GradLease grads = engine.gradients(unit);
    grads.zero();
    for (const Tensor& tensor : unit.tensors) {
      if (tensor.training == Training::frozen) continue;
      for (float& g : grads.f32(tensor.name)) g = value;
    }
    grads.commit();
  }
}

TEST(EngineCalls, refuse_what_makes_no_sense_and_go_on) {
  const auto world = solo_world();
  Engine engine(toy_units(), adamw(), *world, {});
  initialize(engine);
  const Unit& embed = engine.forward_order()[0];
  EXPECT_THAT(error_of([&] { engine.gradients(embed); }),
              AllOf(HasSubstr("invalid_argument"), HasSubstr("micro_batch()")));
  EXPECT_THAT(error_of([&] { engine.micro_batch({.weight = -1}); }), HasSubstr("weight -1"));
  EXPECT_THAT(error_of([&] { engine.micro_batch({.weight = std::nan("")}); }), HasSubstr("weight nan"));
  EXPECT_THAT(error_of([&] { engine.micro_batch({.weight = 16777217}); }), HasSubstr("exact as f32"));
  EXPECT_THAT(error_of([&] { engine.step({.lr = -1}); }), HasSubstr("lr -1"));
  EXPECT_THAT(error_of([&] { engine.step({.lr = 1, .clip_norm = std::numeric_limits<double>::infinity()}); }),
              HasSubstr("clip_norm inf"));
  EXPECT_THAT(error_of([&] { engine.gather({.name = "stranger"}); }), HasSubstr("'stranger'"));
  {
    const ParamLease lease = engine.gather(embed);
    EXPECT_THAT(error_of([&] { lease.bf16("tabel"); }), AllOf(HasSubstr("'tabel'"), HasSubstr("'table'")));
    EXPECT_THAT(error_of([&] { lease.f32("table"); }), HasSubstr("this lease is bf16"));
    EXPECT_THAT(error_of([&] { engine.step({}); }), HasSubstr("'embed'"));
    const ParamLease again = engine.gather(embed);
    EXPECT_EQ(again.bf16("table").data(), lease.bf16("table").data());
    const ParamLease second = engine.gather(engine.forward_order()[1]);
    EXPECT_THAT(error_of([&] { engine.gather(engine.forward_order()[2]); }),
                AllOf(HasSubstr("'embed', 'block.0'"), HasSubstr("--strata-leases is 2")));
  }
  engine.micro_batch();
  {
    GradLease grads = engine.gradients(engine.forward_order()[1]);
    EXPECT_THAT(error_of([&] { grads.f32("b0.frozen"); }), HasSubstr("frozen"));
    EXPECT_THAT(error_of([&] { engine.step({}); }), HasSubstr("'block.0'"));
    grads.zero();
    grads.commit();
    EXPECT_THAT(error_of([&] { grads.commit(); }), HasSubstr("over"));
  }
  EXPECT_TRUE(engine.step({}).applied);
}

TEST(EngineCalls, refuse_bad_models) {
  const auto world = solo_world();
  const auto with = [&](std::vector<Unit> units) {
    return error_of([&] { Engine engine(units, adamw(), *world, {}); });
  };
  EXPECT_THAT(with({}), HasSubstr("no units"));
  EXPECT_THAT(with({{.name = "a"}, {.name = "a"}}), HasSubstr("'a' is empty or given twice"));
  EXPECT_THAT(with({{.name = "a", .tensors = {{.name = "w", .shape = {2, -1}}}}}), HasSubstr("[2, -1]"));
  EXPECT_THAT(with({{.name = "a", .tensors = {{.name = "w"}, {.name = "w"}}}}), HasSubstr("'w' is given twice"));
  EXPECT_THAT(with({{.name = "a", .tensors = {{.name = "w", .lr_factor = -2}}}}), HasSubstr("lr_factor -2"));
  EXPECT_THAT(error_of([&] { Engine engine(toy_units(), nullptr, *world, {}); }), HasSubstr("optimizer"));
}

TEST(EngineCalls, refuse_a_budget_that_is_too_small) {
  const auto world = solo_world();
  Options options;
  options.device_memory_bytes = 4096;
  EXPECT_THAT(
      error_of([&] { Engine engine(toy_units(), adamw(), *world, options); }),
      AllOf(HasSubstr("out_of_budget"), HasSubstr("at least"), HasSubstr("KiB"), HasSubstr("master and moments")));
}

TEST(EngineCalls, a_plan_is_shown_and_nothing_is_taken) {
  const auto world = solo_world();
  Options options;
  options.plan_only = true;
  EXPECT_THAT(error_of([&] { Engine engine(toy_units(), adamw(), *world, options); }),
              AllOf(HasSubstr("ended: --strata-plan"), HasSubstr("master and moments"), HasSubstr("total")));
  options = {};
  options.help = true;
  EXPECT_THAT(error_of([&] { Engine engine(toy_units(), adamw(), *world, options); }),
              AllOf(HasSubstr("ended: --strata-help"), HasSubstr("--strata-stage")));
}

class EveryStage : public testing::TestWithParam<int> {
 protected:
  Options options() const {
    Options options;
    options.stage = GetParam();
    options.dtype = Dtype::f32;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(stages, EveryStage, testing::Values(0, 1, 2, 3));

// SGD without momentum and lr 1 shows the very gradient: parameter -= weighted mean.
TEST_P(EveryStage, uneven_batches_give_the_gradient_of_the_joined_batch) {
  const auto errors = on_each_rank(3, [&](int rank, Communicator& world) {
    Engine engine({{.name = "u", .tensors = {{.name = "w", .shape = {3}}}}}, sgd({.momentum = 0}), world, options());
    engine.initialize(
        [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 0.0f); });
    const double weights[3][2] = {{3, 1}, {0, 2}, {4, 6}};
    for (int micro = 0; micro < 2; ++micro) {
      const double weight = weights[rank][micro];
      engine.micro_batch({.weight = weight});
      engine.record_loss(weight == 0 ? std::nan("") : rank + micro);
      GradLease grads = engine.gradients(engine.forward_order()[0]);
      const float value =
          weight == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(8 * (rank + 1) + 16 * micro);
      for (float& g : grads.f32("w")) g = value;
      grads.commit();
    }
    const StepReport report = engine.step({.lr = 1});
    const double sum = 3 * 8 + 1 * 24 + 2 * 32 + 4 * 24 + 6 * 40;
    ASSERT_TRUE(report.applied) << report.reason;
    EXPECT_EQ(report.weight, 16);
    EXPECT_EQ(report.loss, (3 * 0 + 1 * 1 + 2 * 2 + 4 * 2 + 6 * 3) / 16.0);
    EXPECT_EQ(report.grad_norm, std::sqrt(3 * sum * sum) / 16);
    EXPECT_EQ(engine.gather(engine.forward_order()[0]).f32("w")[2], static_cast<float>(-sum / 16));
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(EveryStage, two_commits_of_one_unit_add_up_and_the_weight_counts_once) {
  const auto errors = on_each_rank(2, [&](int, Communicator& world) {
    Engine engine(toy_units(), sgd({.momentum = 0}), world, options());
    engine.initialize(
        [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 0.0f); });
    const Unit& head = engine.forward_order()[5];
    engine.micro_batch({.weight = 2});
    GradLease one = engine.gradients(head);  // both at once, as well as one after the other
    GradLease two = engine.gradients(head);
    for (float& g : one.f32("h.scale")) g = 4;
    for (float& g : one.f32("h.shift")) g = 1;
    for (float& g : two.f32("h.scale")) g = 8;
    for (float& g : two.f32("h.shift")) g = 2;
    two.commit();
    one.commit();
    GradLease three = engine.gradients(head);
    three.zero();
    three.commit();
    const StepReport report = engine.step({.lr = 1});
    EXPECT_EQ(report.weight, 4);
    EXPECT_EQ(engine.gather(head).f32("h.scale")[1], -12.0f);
    EXPECT_EQ(engine.gather(head).f32("h.shift")[0], -3.0f);
    EXPECT_EQ(engine.gather(engine.forward_order()[0]).f32("table")[0], 0.0f);  // no gradients, no update
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(EveryStage, nonfinite_gradients_make_all_ranks_skip_and_name_the_culprit) {
  for (const Dtype grad : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const ReducePolicy policy : {ReducePolicy::micro_batch, ReducePolicy::step}) {
      Options wanted = options();
      wanted.grad_dtype = grad;
      wanted.reduce = policy;
      const auto errors = on_each_rank(3, [&](int rank, Communicator& world) {
        Engine engine(toy_units(), adamw(), world, wanted);
        initialize(engine);
        const std::uint64_t before = engine.state_hash();
        for (int micro = 0; micro < 2; ++micro) {
          engine.micro_batch();
          for (const Unit& unit : engine.backward_order()) {
            GradLease grads = engine.gradients(unit);
            grads.zero();
            if (rank == 1 && micro == 0 && unit.name == "block.1") {
              // The bits of infinity in each type.
              auto bytes = grads.bytes("b1.w");
              const std::size_t size = bytes_per_element(grad);
              const std::uint32_t infinity = grad == Dtype::f32 ? 0x7F800000 : grad == Dtype::bf16 ? 0x7F80 : 0x7C00;
              std::memcpy(bytes.data() + 2001 * size, &infinity, size);
            }
            grads.commit();
          }
        }
        const StepReport report = engine.step({});
        EXPECT_FALSE(report.applied);
        EXPECT_EQ(report.skip, Skip::nonfinite);
        EXPECT_EQ(report.reason, "nonfinite: rank 1, unit 'block.1', tensor 'b1.w', element 2001");
        EXPECT_EQ(report.skipped_count, 1u);
        EXPECT_EQ(engine.state_hash(), before);
        EXPECT_EQ(engine.step_count(), 1u);
        EXPECT_EQ(engine.applied_count(), 0u);
        ToyRun run;
        run.gradients = ToyGradients::exact;
        if (grad == Dtype::f32) {
          engine.micro_batch();
          commit_all(engine, 1.0f);
          EXPECT_TRUE(engine.step({}).applied);  // nothing is left of the bad values
        }
      });
      for (const std::string& error : errors) EXPECT_EQ(error, "");
    }
  }
}

TEST_P(EveryStage, dropped_lease_makes_all_ranks_skip_and_go_on) {
  const auto errors = on_each_rank(2, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options());
    initialize(engine);
    const std::uint64_t before = engine.state_hash();
    engine.micro_batch();
    for (const Unit& unit : engine.backward_order()) {
      try {
        GradLease grads = engine.gradients(unit);
        grads.zero();
        if (rank == 1 && unit.name == "block.0") throw std::runtime_error("the model failed");
        grads.commit();
      } catch (const std::runtime_error&) {
      }
    }
    const StepReport report = engine.step({});
    EXPECT_EQ(report.reason, "discarded: rank 1, unit 'block.0'");
    EXPECT_EQ(engine.state_hash(), before);
    engine.micro_batch();
    commit_all(engine, 0.5f);
    EXPECT_TRUE(engine.step({}).applied);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(EveryStage, no_weight_anywhere_skips) {
  const auto errors = on_each_rank(2, [&](int, Communicator& world) {
    Engine engine(toy_units(), adamw(), world, options());
    initialize(engine);
    engine.idle_micro_batch();
    const StepReport report = engine.step({});
    EXPECT_EQ(report.skip, Skip::no_weight);
    EXPECT_EQ(engine.step({}).skip, Skip::no_weight);  // not even a micro-batch
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

// A rank out of data takes part: first by the default order, later as recorded, leases held as they were.
TEST_P(EveryStage, idle_rank_leaves_the_others_gradients_exact) {
  const auto errors = on_each_rank(3, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), sgd({.momentum = 0}), world, options());
    engine.initialize(
        [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 0.0f); });
    for (int step = 0; step < 3; ++step) {
      if (step < 2 || rank != 2) {
        engine.micro_batch({.weight = 3});
        const ParamLease held = engine.gather(engine.forward_order()[0]);
        for (const Unit& unit : engine.forward_order()) engine.gather(unit);
        for (const Unit& unit : engine.backward_order()) engine.gather(unit);
        commit_all(engine, static_cast<float>(rank + 1));
      } else {
        engine.idle_micro_batch();
      }
      const StepReport report = engine.step({.lr = 1});
      EXPECT_TRUE(report.applied);
      EXPECT_EQ(report.weight, step < 2 ? 9 : 6);
    }
    EXPECT_EQ(engine.gather(engine.forward_order()[0]).f32("table")[5], -2.0f - 2.0f - 1.5f);
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(EveryStage, f16_scale_halves_on_overflow_and_gradients_are_unscaled) {
  Options wanted = options();
  wanted.dtype = Dtype::f16;
  const auto errors = on_each_rank(2, [&](int rank, Communicator& world) {
    Engine engine(toy_units(), sgd({.momentum = 0}), world, wanted);
    engine.initialize(
        [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 0.0f); });
    EXPECT_EQ(engine.loss_scale(), 65536);
    engine.micro_batch();
    commit_all(engine, rank == 0 ? std::numeric_limits<float>::infinity() : 1.0f);
    EXPECT_EQ(engine.step({}).skip, Skip::nonfinite);
    EXPECT_EQ(engine.loss_scale(), 32768);
    engine.micro_batch();
    commit_all(engine, static_cast<float>(0.5 * engine.loss_scale()));
    const StepReport report = engine.step({.lr = 1});
    EXPECT_TRUE(report.applied);
    EXPECT_EQ(report.loss_scale, 32768);
    EXPECT_EQ(engine.gather(engine.forward_order()[5]).f16("h.scale")[0].bits, 0xB800);  // -0.5
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
}

TEST_P(EveryStage, lr_factor_and_decay_act_by_group) {
  const auto world = solo_world();
  std::vector<Unit> units = {{.name = "u",
                              .tensors = {{.name = "plain", .shape = {300}},
                                          {.name = "slow", .shape = {300}, .lr_factor = 0.5f},
                                          {.name = "still", .shape = {7}, .lr_factor = 0},
                                          {.name = "free", .shape = {5}, .decay = Decay::off}}}};
  Engine engine(units, sgd({.momentum = 0, .weight_decay = 0.5f}), *world, options());
  engine.initialize(
      [](const Tensor&, std::size_t, std::span<float> values) { std::fill(values.begin(), values.end(), 1.0f); });
  engine.micro_batch();
  commit_all(engine, 0.25f);
  engine.step({.lr = 1});
  const ParamLease lease = engine.gather(engine.forward_order()[0]);
  EXPECT_EQ(lease.f32("plain")[299], 0.25f);
  EXPECT_EQ(lease.f32("slow")[0], 0.625f);
  EXPECT_EQ(lease.f32("still")[6], 1.0f);
  EXPECT_EQ(lease.f32("free")[4], 0.75f);
}

TEST_P(EveryStage, evaluation_in_between_changes_nothing) {
  ToyRun run;
  run.options = options();
  run.ranks = 2;
  run.accumulate = 2;
  const ToyResult plain = run_toy(run);
  run.before_step = [](Engine& engine, int, int) {
    const Engine::Evaluation evaluation = engine.evaluation();
    for (const Unit& unit : engine.backward_order()) engine.gather(unit);
    EXPECT_THAT(error_of([&] { engine.step({}); }), HasSubstr("evaluation"));
    EXPECT_THAT(error_of([&] { engine.gradients(engine.forward_order()[0]); }), HasSubstr("evaluation"));
  };
  EXPECT_EQ(plain.state, run_toy(run).state);
}

// Rank 0 waits for the late rank, and that is told apart.
TEST_P(EveryStage, waiting_for_a_late_peer_is_part_of_the_waits) {
  ToyRun run;
  run.options = options();
  run.ranks = 2;
  run.before_step = [](Engine&, int rank, int) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  double peer_s = 0;
  for (const StepReport& report : run_toy(run).reports) {
    EXPECT_LE(report.waits.peer_s, report.waits.total_s());
    peer_s += report.waits.peer_s;
  }
  EXPECT_GT(peer_s, 0.01);
}

// The communication lane waits for the late rank, while the caller is busy itself.
TEST_P(EveryStage, waits_beside_a_busy_caller_are_not_the_callers) {
  ToyRun run;
  run.options = options();
  run.ranks = 2;
  run.weight = [](int rank, int, int) {
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return 1.0;
  };
  run.before_step = [](Engine&, int rank, int) {
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(40));
  };
  for (const StepReport& report : run_toy(run).reports) EXPECT_LE(report.waits.peer_s, report.waits.total_s());
}

// Control flow that changes from step to step, the same on all ranks: slower, never wrong.
TEST_P(EveryStage, any_order_of_units_gives_the_same_sums) {
  const auto train = [&](bool shuffled, std::uint32_t prefetch) {
    std::uint64_t state = 0;
    Options wanted = options();
    wanted.prefetch = prefetch;
    const auto errors = on_each_rank(3, [&](int rank, Communicator& world) {
      Engine engine(toy_units(), adamw(), world, wanted);
      initialize(engine);
      std::uint64_t random = 17;
      for (int step = 0; step < 6; ++step) {
        engine.micro_batch({.weight = static_cast<double>(rank + 1)});
        for (int visit = 0; shuffled && visit < 12; ++visit) {
          random = random * 6364136223846793005ull + 1442695040888963407ull;
          engine.gather(engine.forward_order()[random >> 60 > 11 ? 0 : (random >> 33) % 6]);
        }
        for (const Unit& unit : engine.backward_order()) engine.gather(unit);
        commit_all(engine, static_cast<float>(rank - step));
        engine.step({.lr = 0.1});
      }
      const std::uint64_t own = engine.state_hash();
      if (rank == 0) state = own;
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    return state;
  };
  const std::uint64_t straight = train(false, 0);
  for (const std::uint32_t prefetch : {0u, 1u, 5u}) EXPECT_EQ(straight, train(true, prefetch));
}

TEST(Frozen, costs_no_gradient_and_no_state) {
  const auto optimizer = adamw();
  const Machine machine{.device_free_bytes = std::uint64_t{1} << 40};
  std::vector<Unit> units = {
      {.name = "u", .tensors = {{.name = "w", .shape = {1 << 20}, .training = Training::frozen}}}};
  for (int stage = 0; stage <= 3; ++stage) {
    Options options;
    options.stage = stage;
    const Plan plan = make_plan(units, *optimizer, 2, options, machine);
    for (const PlanRow& row : plan.rows) {
      EXPECT_TRUE(row.what == "published parameters" || row.what == "gathered units" || row.bytes <= 4096) << row.what;
    }
    EXPECT_EQ(plan.trainable_count, 0u);
    EXPECT_EQ(plan.parameter_count, 1u << 20);
  }
}

TEST(FillNormal, depends_on_the_element_alone_and_is_normal) {
  std::vector<float> whole(200000);
  fill_normal(whole, 3, "w", 0, 2.0f);
  std::vector<float> part(1000);
  fill_normal(part, 3, "w", 777, 2.0f);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 777));
  double sum = 0;
  double squares = 0;
  int beyond = 0;
  for (const float value : whole) {
    sum += value;
    squares += static_cast<double>(value) * value;
    beyond += std::abs(value) > 2 * 1.959964f;
  }
  EXPECT_NEAR(sum / 200000, 0, 4 * 2 / std::sqrt(200000.0));
  EXPECT_NEAR(squares / 200000, 4, 4 * 4 * std::sqrt(2 / 200000.0));
  EXPECT_NEAR(beyond / 200000.0, 0.05, 4 * std::sqrt(0.05 * 0.95 / 200000));
  std::vector<float> other(1000);
  fill_normal(other, 4, "w", 777, 2.0f);
  EXPECT_NE(part, other);
}

}  // namespace
}  // namespace strata::test
