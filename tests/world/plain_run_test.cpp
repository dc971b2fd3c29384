// The engine against a plain loop that knows nothing of shards: every master and moment, and every norm, bit for bit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <tuple>

#include <strata/detail/cast.h>
#include "support/matrix_share.h"
#include "support/toy_model.h"

namespace strata::test {
namespace {

using Values = std::vector<float>;

float published_of(float master, Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16: return detail::to_f32(detail::to_bf16(master));
    case Dtype::f16: return detail::to_f32(detail::to_f16(master));
    default: return master;
  }
}

// Leaves of 256 elements in eight lanes, then pairs of leaves, pairs of pairs, and so on: by the definition.
double tree_sum(const Values& flat, std::size_t first_leaf, std::size_t leaf_count) {
  if (leaf_count == 1) {
    double lanes[8] = {};
    for (std::size_t i = 0; i < 256 && first_leaf * 256 + i < flat.size(); ++i) {
      const double value = flat[first_leaf * 256 + i];
      lanes[i % 8] += value * value;
    }
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
  }
  const std::size_t left = std::bit_ceil(leaf_count) / 2;
  return tree_sum(flat, first_leaf, left) + tree_sum(flat, first_leaf + left, leaf_count - left);
}

struct PlainModel {
  std::vector<Unit> units = toy_units();
  std::map<std::string, Values> master, first_moment, second_moment, sum;
  std::vector<double> norms;

  PlainModel() {
    for (const Unit& unit : units) {
      for (const Tensor& tensor : unit.tensors) {
        Values values(tensor.element_count());
        toy_initial(tensor, 0, values);
        first_moment[tensor.name].resize(values.size());
        second_moment[tensor.name].resize(values.size());
        master[tensor.name] = std::move(values);
      }
    }
  }

  // Sum over the ranks of weight * gradient, in rank order, each product rounded once.
  Values micro_batch_sum(const ToyRun& run, const Tensor& tensor, int step, int micro, int only_rank) const {
    Values sum(tensor.element_count());
    const int first = only_rank < 0 ? 0 : only_rank;
    const int last = only_rank < 0 ? run.ranks : only_rank + 1;
    for (int rank = first; rank < last; ++rank) {
      const std::uint64_t key = toy_key(tensor.name, toy_item(rank, run.ranks, step, micro));
      const auto weight = static_cast<float>(toy_weight(rank, step, micro));
      const double scale = run.options.dtype == Dtype::f16 ? 65536 : 1;
      for (std::size_t i = 0; i < sum.size(); ++i) {
        const float published = published_of(master.at(tensor.name)[i], run.options.dtype);
        const float term = weight * toy_gradient(run.gradients, key, i, published, scale);
        sum[i] = rank == first ? term : sum[i] + term;
      }
    }
    return sum;
  }

  static void add(Values& target, const Values& terms, bool first) {
    for (std::size_t i = 0; i < target.size(); ++i) target[i] = first ? terms[i] : target[i] + terms[i];
  }

  Values step_sum(const ToyRun& run, const Tensor& tensor, int step) const {
    Values total(tensor.element_count());
    if (run.options.reduce == ReducePolicy::micro_batch) {
      for (int micro = 0; micro < run.accumulate; ++micro) {
        add(total, micro_batch_sum(run, tensor, step, micro, -1), micro == 0);
      }
      return total;
    }
    for (int rank = 0; rank < run.ranks; ++rank) {
      Values own(tensor.element_count());
      for (int micro = 0; micro < run.accumulate; ++micro) {
        add(own, micro_batch_sum(run, tensor, step, micro, rank), micro == 0);
      }
      add(total, own, rank == 0);
    }
    return total;
  }

  double unit_square_sum(const Unit& unit) const {
    Values flat;
    for (const Tensor& tensor : unit.tensors) {
      if (tensor.training == Training::frozen || tensor.element_count() == 0) continue;
      flat.resize((flat.size() + 31) / 32 * 32);
      const Values& values = sum.at(tensor.name);
      flat.insert(flat.end(), values.begin(), values.end());
    }
    return flat.empty() ? 0 : tree_sum(flat, 0, (flat.size() + 255) / 256);
  }

  void train_step(const ToyRun& run, int step) {
    double weight = 0;
    for (int rank = 0; rank < run.ranks; ++rank) {
      for (int micro = 0; micro < run.accumulate; ++micro) weight += toy_weight(rank, step, micro);
    }
    double squares = 0;
    for (const Unit& unit : units) {
      for (const Tensor& tensor : unit.tensors) {
        if (tensor.training == Training::trainable) sum[tensor.name] = step_sum(run, tensor, step);
      }
      squares += unit_square_sum(unit);
    }
    const double divisor = weight * (run.options.dtype == Dtype::f16 ? 65536 : 1);
    const double norm = std::sqrt(squares) / divisor;
    norms.push_back(norm);
    const double clip = norm > run.clip_norm ? run.clip_norm / norm : 1.0;
    for (const Unit& unit : units) {
      for (const Tensor& tensor : unit.tensors) {
        if (tensor.training == Training::trainable) update(tensor, step, static_cast<float>(clip / divisor));
      }
    }
  }

  void update(const Tensor& tensor, int step, float scale) {
    const auto optimizer = adamw({.beta2 = 0.95f, .weight_decay = 0.1f});
    Values published(tensor.element_count());
    UpdatePiece piece;
    piece.count = published.size();
    piece.master = master[tensor.name].data();
    piece.moments = {first_moment[tensor.name].data(), second_moment[tensor.name].data()};
    piece.gradient = sum[tensor.name].data();
    piece.published = published.data();
    piece.published_dtype = Dtype::f32;
    UpdateStep now;
    now.lr = static_cast<double>(0.01f);
    now.applied_count = static_cast<std::uint64_t>(step) + 1;
    now.gradient_scale = scale;
    now.decay = tensor.decay;
    now.lr_factor = tensor.lr_factor;
    optimizer->update(piece, now);
  }
};

class PlainRun : public SharedMatrix<std::tuple<ReducePolicy, Dtype, int>> {};

TEST_P(PlainRun, gives_the_same_bits) {
  const auto [policy, dtype, accumulate] = GetParam();
  for (int ranks = 1; ranks <= 4; ++ranks) {
    ToyRun run;
    run.ranks = ranks;
    run.accumulate = accumulate;
    run.options.reduce = policy;
    run.options.dtype = dtype;
    run.options.stage = (ranks + accumulate) % 4;
    PlainModel plain;
    for (int step = 0; step < run.steps; ++step) plain.train_step(run, step);
    std::size_t seen = 0;
    const auto errors = on_each_rank(ranks, [&](int rank, Communicator& world) {
      Engine engine(toy_units(), adamw({.beta2 = 0.95f, .weight_decay = 0.1f}), world, run.options);
      engine.initialize(toy_initial);
      for (int step = 0; step < run.steps; ++step) {
        for (int micro = 0; micro < accumulate; ++micro) toy_micro_batch(engine, run, rank, ranks, step, micro);
        const StepReport report = engine.step({.lr = 0.01, .clip_norm = run.clip_norm});
        EXPECT_EQ(report.grad_norm, plain.norms[static_cast<std::size_t>(step)]);
      }
      std::size_t own = 0;
      engine.visit_state(
          [&](const Tensor& tensor, std::string_view kind, std::size_t first, std::span<const float> values) {
            if (tensor.training == Training::frozen) return;
            const Values& want = kind == "master"    ? plain.master.at(tensor.name)
                                 : kind == "exp_avg" ? plain.first_moment.at(tensor.name)
                                                     : plain.second_moment.at(tensor.name);
            for (std::size_t i = 0; i < values.size(); ++i) {
              ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(want[first + i]))
                  << fmt::format("{} {} [{}], {} ranks", tensor.name, kind, first + i, ranks);
            }
            own += values.size();
          });
      if (rank == 0) seen = own;
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "");
    EXPECT_GT(seen, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(matrix, PlainRun,
                         testing::Combine(testing::Values(ReducePolicy::micro_batch, ReducePolicy::step),
                                          testing::Values(Dtype::f32, Dtype::bf16, Dtype::f16),
                                          testing::Values(1, 2, 5)));

}  // namespace
}  // namespace strata::test
