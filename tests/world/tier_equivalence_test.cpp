// Where the state lies changes no bit: memory, host, nvme and every mix, any legal budget, backend, chunk and block.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <random>
#include <stdexcept>
#include <tuple>

#include "support/fresh_folder.h"
#include "support/matrix_share.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

constexpr Dtype dtypes[] = {Dtype::f32, Dtype::bf16, Dtype::f16};
constexpr int accumulations[] = {1, 2, 5};
constexpr std::array<Home, 3> homes = {Home::device, Home::host, Home::nvme};
constexpr std::string_view home_names[] = {"auto", "device", "host", "nvme"};

std::string_view name_of(Home home) { return home_names[static_cast<std::size_t>(home)]; }

void expect_same(const ToyResult& one, const ToyResult& other, const std::string& what) {
  EXPECT_EQ(one.state, other.state) << what;
  EXPECT_EQ(one.published, other.published) << what;
  ASSERT_EQ(one.reports.size(), other.reports.size());
  for (std::size_t i = 0; i < one.reports.size(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(one.reports[i].grad_norm),
              std::bit_cast<std::uint64_t>(other.reports[i].grad_norm))
        << what << ", step " << i;
    EXPECT_TRUE(other.reports[i].applied) << what << ", step " << i;
  }
}

class TierEquivalence : public SharedMatrix<std::tuple<Dtype, int, int>> {
 protected:
  ToyRun plain_run() const {
    const auto [dtype, accumulate, ranks] = GetParam();
    ToyRun run;
    run.options.dtype = dtype;
    run.options.chunk = 2048;
    run.ranks = ranks;
    run.accumulate = accumulate;
    return run;
  }
  ToyRun run_with_disk() const {
    ToyRun run = plain_run();
    run.options.nvme_dirs = {folder_.path()};
    return run;
  }
  void TearDown() override { EXPECT_TRUE(folder_.is_empty()) << "something was left in the directory"; }

  const FreshFolder folder_;
};

std::string matrix_name(const testing::TestParamInfo<std::tuple<Dtype, int, int>>& info) {
  const auto [dtype, accumulate, ranks] = info.param;
  return fmt::format("{}_{}_micro_batches_{}_ranks", to_string(dtype), accumulate, ranks);
}

TEST_P(TierEquivalence, every_home_of_every_kind) {
  const ToyResult reference = run_toy(plain_run());
  ToyRun run = run_with_disk();
  for (int stage = 1; stage <= 3; ++stage) {
    run.options.stage = stage;
    for (const Home params : homes) {
      if (stage < 3 && params != Home::device) continue;  // whole copies: refused
      for (const Home optimizer : homes) {
        for (const Home gradients : homes) {
          run.options.params = params;
          run.options.optimizer = optimizer;
          run.options.gradients = gradients;
          const std::string what = fmt::format("stage {}, params {}, optimizer {}, gradients {}", stage,
                                               name_of(params), name_of(optimizer), name_of(gradients));
          const ToyResult result = run_toy(run);
          expect_same(reference, result, what);
          const bool any_nvme = params == Home::nvme || optimizer == Home::nvme || gradients == Home::nvme;
          EXPECT_EQ(result.reports.back().nvme_bytes > 0, any_nvme) << what;
        }
      }
    }
  }
}

// Random picks of budgets between the least and plenty, and of all else that may only make a run slower.
TEST_P(TierEquivalence, budgets_backends_chunks_and_blocks) {
  const auto [dtype, accumulate, ranks] = GetParam();
  std::mt19937 random(static_cast<unsigned>(ranks * 31 + accumulate) * 7 + static_cast<unsigned>(dtype));
  const auto pick = [&](const auto& values) { return values[random() % std::size(values)]; };
  const ToyResult reference = run_toy(plain_run());
  int used_disk = 0;
  for (int trial = 0; trial < 10; ++trial) {
    ToyRun run = run_with_disk();
    Options& options = run.options;
    options.stage = pick(std::array{1, 2, 3, 3});
    options.prefetch = pick(std::array{0u, 1u, 2u, 5u});
    options.threads = pick(std::array{1u, 2u});
    options.chunk = pick(std::array{2048u, 4096u, 65536u});
    options.io = pick(std::array{IoBackend::automatic, IoBackend::threads});
    options.io_block_bytes = pick(std::array{4096u, 65536u, 2u << 20});
    options.io_inflight_bytes = options.io_block_bytes * pick(std::array{1u, 3u, 8u});
    options.split_master = pick(std::array{true, false});
    if (random() % 2 == 0) options.optimizer = Home::nvme;
    options.device_memory_bytes = options.host_memory_bytes = std::uint64_t{1} << 40;
    const auto optimizer = adamw();
    const Machine machine{.device_free_bytes = std::uint64_t{1} << 40,
                          .nvme_free_bytes = std::uint64_t{1} << 40,
                          .local_rank_count = static_cast<std::uint32_t>(ranks)};
    const auto budget_between = [&](std::uint64_t least_bytes, std::uint64_t most_bytes) {
      return least_bytes + random() % (most_bytes - least_bytes + 1);
    };
    const Plan roomy = make_plan(toy_units(), *optimizer, ranks, options, machine);
    const std::uint64_t most_bytes = roomy.total_bytes(TierKind::device) + roomy.total_bytes(TierKind::host);
    options.device_memory_bytes = budget_between(roomy.least_device_bytes, most_bytes);
    // Of host memory the least is what the slots take when all goes to nvme.
    options.host_memory_bytes = budget_between(1 << 20, std::uint64_t{4} << 20);
    const std::string what = fmt::format(
        "trial {}: stage {} prefetch {} chunk {} io {} block {} inflight {} split {} device {} host {}", trial,
        options.stage, *options.prefetch, *options.chunk, static_cast<int>(options.io), options.io_block_bytes,
        options.io_inflight_bytes, options.split_master, *options.device_memory_bytes, *options.host_memory_bytes);
    SCOPED_TRACE(what);
    try {
      const ToyResult result = run_toy(run);
      expect_same(reference, result, what);
      if (result.reports.back().nvme_bytes > 0) ++used_disk;
    } catch (const std::exception& error) {
      // Legal budgets end where the error says; it must be this error.
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr("out_of_budget")) << what;
      EXPECT_THAT(std::string(error.what()), testing::HasSubstr("at least")) << what;
    }
  }
  EXPECT_GE(used_disk, 1);
}

// The state moves after every step: to other homes, chunks, budgets, backends.
TEST_P(TierEquivalence, retuned_in_the_middle) {
  const ToyResult reference = run_toy(plain_run());
  for (int stage = 1; stage <= 3; ++stage) {
    ToyRun run = run_with_disk();
    run.options.stage = stage;
    const Options start = run.options;
    run.after_step = [&](Engine& engine, int, int step) {
      std::mt19937 random(static_cast<unsigned>(31 * stage + step));
      const auto pick = [&](const auto& values) { return values[random() % std::size(values)]; };
      Options options = start;
      if (stage == 3) options.params = pick(homes);
      options.optimizer = pick(homes);
      options.gradients = pick(homes);
      options.chunk = pick(std::array{2048u, 4096u, 65536u});
      options.prefetch = pick(std::array{0u, 1u, 5u});
      options.threads = pick(std::array{1u, 2u});
      options.io = pick(std::array{IoBackend::automatic, IoBackend::threads});
      options.split_master = pick(std::array{true, false});
      engine.retune(options);
    };
    expect_same(reference, run_toy(run), fmt::format("stage {}", stage));
  }
}

INSTANTIATE_TEST_SUITE_P(matrix, TierEquivalence,
                         testing::Combine(testing::ValuesIn(dtypes), testing::ValuesIn(accumulations),
                                          testing::Values(1, 2, 3)),
                         matrix_name);

// Sums over ranks in another rounding, gradients handed in narrow, the whole step by policy `step`.
TEST(TierEquivalence, other_dtypes_and_policy) {
  const FreshFolder folder;
  for (const ReducePolicy policy : {ReducePolicy::micro_batch, ReducePolicy::step}) {
    for (const Dtype grad : {Dtype::f32, Dtype::bf16}) {
      ToyRun run;
      run.options.reduce = policy;
      run.options.grad_dtype = grad;
      run.options.reduce_dtype = Dtype::bf16;
      run.options.chunk = 2048;
      run.ranks = 2;
      run.accumulate = 2;
      const ToyResult reference = run_toy(run);
      run.options.nvme_dirs = {folder.path()};
      run.options.params = run.options.optimizer = Home::nvme;
      if (policy == ReducePolicy::micro_batch) run.options.gradients = Home::nvme;
      expect_same(reference, run_toy(run), std::string(to_string(grad)));
    }
  }
}

TEST(TierEquivalence, every_optimizer) {
  const FreshFolder folder;
  for (const auto& optimizer : {adamw({.weight_decay = 0.1f}), sgd({.momentum = 0.9f}), lion({})}) {
    ToyRun run;
    run.options.chunk = 2048;
    run.ranks = 2;
    run.optimizer = optimizer;
    const ToyResult reference = run_toy(run);
    run.options.nvme_dirs = {folder.path()};
    run.options.optimizer = Home::nvme;
    for (const bool split : {true, false}) {
      run.options.split_master = split;
      expect_same(reference, run_toy(run), std::string(optimizer->name()));
    }
  }
}

// Memory that is no disk takes no direct I/O on some systems; whatever was refused is said, and where nothing was,
// nothing.
TEST(TierEquivalence, warnings_are_those_of_the_disk_alone) {
  const FreshFolder folder;
  ToyRun run;
  run.options.nvme_dirs = {folder.path()};
  run.after_step = [](Engine& engine, int, int) { EXPECT_TRUE(engine.warnings().empty()); };
  run_toy(run);
  run.options.optimizer = Home::nvme;
  run.options.io = IoBackend::threads;  // asked for, and so no warning
  run.after_step = [](Engine& engine, int, int) {
    for (const std::string& warning : engine.warnings())
      EXPECT_THAT(warning, testing::Not(testing::HasSubstr("io_uring")));
  };
  run_toy(run);
}

// What a caller's function throws ends that pass alone.
TEST(TierEquivalence, initializers_and_visitors_may_throw) {
  const FreshFolder folder;
  ToyRun run;
  run.options.chunk = 2048;
  const ToyResult reference = run_toy(run);
  run.options.nvme_dirs = {folder.path()};
  run.options.params = run.options.optimizer = run.options.gradients = Home::nvme;
  run.after_step = [](Engine& engine, int, int) {
    for (int calls = 1; calls < 30; calls += 7) {
      int left = calls;
      EXPECT_THROW(engine.visit_state([&](const Tensor&, std::string_view, std::size_t, std::span<const float>) {
        if (--left == 0) throw std::runtime_error("enough");
      }),
                   std::runtime_error);
    }
  };
  EXPECT_EQ(reference.state, run_toy(run).state);
}

TEST(Retune, refuses_what_it_cannot_do_and_changes_nothing) {
  const FreshFolder folder;
  ToyRun run;
  run.ranks = 2;
  run.options.chunk = 2048;
  const ToyResult reference = run_toy(run);
  run.after_step = [&](Engine& engine, int, int) {
    const auto refused = [&](const std::function<void(Options&)>& change) -> std::string {
      Options options = run.options;
      change(options);
      try {
        engine.retune(options);
      } catch (const Error& error) {
        return error.what();
      }
      return "no error";
    };
    EXPECT_THAT(refused([](Options& o) { o.stage = 2; }), testing::HasSubstr("--strata-stage from 3 to 2"));
    EXPECT_THAT(refused([](Options& o) { o.dtype = Dtype::f32; }), testing::HasSubstr("--strata-dtype"));
    EXPECT_THAT(refused([](Options& o) { o.optimizer = Home::nvme; }), testing::HasSubstr("--strata-nvme-dir"));
    const std::uint64_t held_bytes = engine.plan().total_bytes(TierKind::device);
    EXPECT_THAT(refused([&](Options& o) { o.device_memory_bytes = held_bytes + 4096; }),
                testing::AllOf(testing::HasSubstr("out_of_budget"), testing::HasSubstr("old and the new")));
    const ParamLease held = engine.gather(engine.forward_order()[0]);
    EXPECT_THAT(refused([](Options&) {}), testing::HasSubstr("held"));
  };
  EXPECT_EQ(reference.state, run_toy(run).state);
}

// Skipped steps, evaluation and a hash in between leave what was loaded ahead as right as before.
TEST(TierEquivalence, skips_and_passes_over_the_state_in_between) {
  const FreshFolder folder;
  ToyRun run;
  run.options.chunk = 2048;
  run.ranks = 2;
  run.steps = 5;
  run.weight = [](int rank, int step, int micro) { return step == 2 ? 0.0 : toy_weight(rank, step, micro); };
  const ToyResult reference = run_toy(run);
  run.options.nvme_dirs = {folder.path()};
  run.options.params = run.options.optimizer = run.options.gradients = Home::nvme;
  std::array<std::uint64_t, 2> hashes{};
  run.before_step = [&](Engine& engine, int rank, int step) {
    if (step % 2 == 1) hashes[static_cast<std::size_t>(rank)] = engine.state_hash();
    const Engine::Evaluation evaluation = engine.evaluation();
    for (const Unit& unit : engine.backward_order()) engine.gather(unit);
  };
  const ToyResult result = run_toy(run);
  EXPECT_EQ(reference.state, result.state);
  EXPECT_EQ(reference.published, result.published);
  EXPECT_FALSE(result.reports[2].applied);
  EXPECT_EQ(hashes[0], hashes[1]);
}

}  // namespace
}  // namespace strata::test
