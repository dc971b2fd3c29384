// One result: for a world size and reduce policy, the bits do not depend on stage, budget, prefetch, threads or chunks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <tuple>

#include "support/matrix_share.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

constexpr Dtype dtypes[] = {Dtype::f32, Dtype::bf16, Dtype::f16};
constexpr ReducePolicy policies[] = {ReducePolicy::micro_batch, ReducePolicy::step};
constexpr int accumulations[] = {1, 2, 5};

void expect_same(const ToyResult& one, const ToyResult& other, const std::string& what) {
  EXPECT_EQ(one.state, other.state) << what;
  EXPECT_EQ(one.published, other.published) << what;
  ASSERT_EQ(one.reports.size(), other.reports.size());
  for (std::size_t i = 0; i < one.reports.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(one.reports[i].grad_norm),
              std::bit_cast<std::uint64_t>(other.reports[i].grad_norm))
        << what << ", step " << i;
    EXPECT_EQ(one.reports[i].loss, other.reports[i].loss) << what << ", step " << i;
    EXPECT_EQ(one.reports[i].weight, other.reports[i].weight) << what << ", step " << i;
    EXPECT_TRUE(one.reports[i].applied && other.reports[i].applied) << what << ", step " << i;
  }
}

class Equivalence : public SharedMatrix<std::tuple<ReducePolicy, Dtype, int>> {};

std::string matrix_name(const testing::TestParamInfo<std::tuple<ReducePolicy, Dtype, int>>& info) {
  const auto [policy, dtype, ranks] = info.param;
  return fmt::format("{}_{}_{}_ranks", policy == ReducePolicy::step ? "step" : "micro_batch", to_string(dtype), ranks);
}

TEST_P(Equivalence, stages_and_accumulation) {
  const auto [policy, dtype, ranks] = GetParam();
  for (const int accumulate : accumulations) {
    ToyRun run;
    run.options.reduce = policy;
    run.options.dtype = dtype;
    run.options.stage = 0;
    run.ranks = ranks;
    run.accumulate = accumulate;
    const ToyResult reference = run_toy(run);
    for (int stage = 1; stage <= 3; ++stage) {
      run.options.stage = stage;
      expect_same(reference, run_toy(run), fmt::format("stage {}, accumulation {}", stage, accumulate));
    }
    expect_same(run_toy(run), run_toy(run), "the same run twice");
  }
}

// Random picks of everything that may only make a run slower.
TEST_P(Equivalence, schedule_budget_and_chunks) {
  const auto [policy, dtype, ranks] = GetParam();
  std::mt19937 random(static_cast<unsigned>(ranks) * 31 + static_cast<unsigned>(dtype));
  const auto pick = [&](auto... values) {
    const std::uint32_t options[] = {static_cast<std::uint32_t>(values)...};
    return options[random() % std::size(options)];
  };
  ToyRun run;
  run.options.reduce = policy;
  run.options.dtype = dtype;
  run.ranks = ranks;
  run.accumulate = 2;
  const ToyResult reference = run_toy(run);
  for (int trial = 0; trial < 12; ++trial) {
    ToyRun other = run;
    other.options.stage = static_cast<int>(pick(0, 1, 2, 3, 3, 3));
    other.options.prefetch = pick(0, 1, 2, 5, 50);
    other.options.threads = pick(1, 2, 3);
    other.options.chunk = pick(2048, 4096, 65536, 1u << 20);
    other.options.leases = pick(1, 2, 4);
    const std::string what =
        fmt::format("trial {}: stage {} prefetch {} threads {} chunk {} leases {}", trial, other.options.stage,
                    *other.options.prefetch, *other.options.threads, *other.options.chunk, other.options.leases);
    const ToyResult roomy = run_toy(other);
    expect_same(reference, roomy, what);
    const Machine machine{.device_free_bytes = std::uint64_t{1} << 40};
    const auto optimizer = adamw();
    const Plan plan = make_plan(toy_units(), *optimizer, ranks, other.options, machine);
    const std::uint64_t most_bytes = plan.total_bytes(TierKind::device);
    const std::uint64_t spare_bytes = most_bytes - plan.least_device_bytes;
    other.options.device_memory_bytes = plan.least_device_bytes + (spare_bytes > 0 ? random() % (spare_bytes + 1) : 0);
    expect_same(reference, run_toy(other), what + fmt::format(" budget {}", *other.options.device_memory_bytes));
  }
}

TEST_P(Equivalence, narrow_gradients_and_wire) {
  const auto [policy, dtype, ranks] = GetParam();
  for (const Dtype grad : dtypes) {
    for (const Dtype wire : dtypes) {
      ToyRun run;
      run.options.reduce = policy;
      run.options.dtype = dtype;
      run.options.grad_dtype = grad;
      run.options.reduce_dtype = wire;
      run.ranks = ranks;
      run.steps = 2;
      run.options.stage = 0;
      // f16 leases cannot hold gradients under the first loss scale; the rest must not skip.
      if (dtype == Dtype::f16 && (grad == Dtype::f16 || wire == Dtype::f16)) continue;
      const ToyResult reference = run_toy(run);
      for (int stage = 1; stage <= 3; ++stage) {
        run.options.stage = stage;
        expect_same(reference, run_toy(run),
                    fmt::format("stage {} grad {} wire {}", stage, to_string(grad), to_string(wire)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(matrix, Equivalence,
                         testing::Combine(testing::ValuesIn(policies), testing::ValuesIn(dtypes),
                                          testing::Values(1, 2, 3, 4)),
                         matrix_name);

// Where every sum is exact, ranks and micro-batches may share the items out as they like.
TEST(Worlds, exact_inputs_give_one_result_for_all_world_sizes) {
  for (const Dtype dtype : dtypes) {
    for (const ReducePolicy policy : policies) {
      for (const int stage : {0, 1, 2, 3}) {
        ToyRun run;
        run.gradients = ToyGradients::exact;
        run.options.dtype = dtype;
        run.options.reduce = policy;
        run.options.stage = stage;
        run.weight = [](int, int, int) { return 1.0; };
        run.clip_norm = 0;
        run.ranks = 1;
        run.accumulate = 12;
        const ToyResult reference = run_toy(run);
        for (const int ranks : {2, 3, 4}) {
          run.ranks = ranks;
          run.accumulate = 12 / ranks;
          const ToyResult other = run_toy(run);
          EXPECT_EQ(reference.state, other.state)
              << fmt::format("{} ranks, stage {}, {}", ranks, stage, to_string(dtype));
          EXPECT_EQ(reference.published, other.published);
          EXPECT_EQ(reference.norms(), other.norms());
        }
      }
    }
  }
}

TEST(Worlds, state_tells_runs_apart) {
  ToyRun run;
  run.ranks = 2;
  const ToyResult plain = run_toy(run);
  ToyRun longer = run;
  longer.steps = 4;
  EXPECT_NE(plain.state, run_toy(longer).state);
  ToyRun heavier = run;
  heavier.weight = [](int rank, int, int) { return rank == 0 ? 2.0 : 1.0; };
  EXPECT_NE(plain.state, run_toy(heavier).state);
  ToyRun plainer = run;
  plainer.optimizer = adamw({.beta2 = 0.95f, .weight_decay = 0.0f});
  EXPECT_NE(plain.state, run_toy(plainer).state);
}

TEST(Worlds, other_optimizers_agree_over_stages) {
  for (const auto& optimizer : {sgd({.momentum = 0.9f, .weight_decay = 0.01f}), lion({.weight_decay = 0.1f})}) {
    ToyRun run;
    run.ranks = 3;
    run.optimizer = optimizer;
    run.options.stage = 0;
    const ToyResult reference = run_toy(run);
    for (int stage = 1; stage <= 3; ++stage) {
      run.options.stage = stage;
      expect_same(reference, run_toy(run), std::string(optimizer->name()));
    }
  }
}

// Every byte is where the plan says: counted where it is taken, on every rank, in every combination.
TEST(Worlds, counters_equal_the_plan) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (int stage = 0; stage <= 3; ++stage) {
      for (const ReducePolicy policy : policies) {
        for (const Dtype dtype : dtypes) {
          ToyRun run;
          run.options.stage = stage;
          run.options.reduce = policy;
          run.options.dtype = dtype;
          run.ranks = ranks;
          run.steps = 1;
          const ToyResult result = run_toy(run);
          for (const std::uint64_t bytes : result.device_bytes) EXPECT_EQ(bytes, result.planned_bytes);
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
