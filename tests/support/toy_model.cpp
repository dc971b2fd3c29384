#include "support/toy_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <strata/detail/cast.h>

namespace strata::test {
namespace {

std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

float published_value(const ParamLease& lease, std::string_view tensor, std::size_t i) {
  switch (lease.dtype()) {
    case Dtype::bf16: return detail::to_f32(lease.bf16(tensor)[i]);
    case Dtype::f16: return detail::to_f32(lease.f16(tensor)[i]);
    default: return lease.f32(tensor)[i];
  }
}

void store_gradients(const GradLease& lease, std::string_view tensor, std::span<const float> values) {
  switch (lease.dtype()) {
    case Dtype::bf16: return detail::cast(values, lease.bf16(tensor));
    case Dtype::f16: return detail::cast(values, lease.f16(tensor));
    default: std::copy(values.begin(), values.end(), lease.f32(tensor).begin());
  }
}

void fill_gradients(const ToyRun& run, const ParamLease& params, const Tensor& tensor, std::uint64_t item, double scale,
                    std::vector<float>& values) {
  values.resize(tensor.element_count());
  const std::uint64_t key = toy_key(tensor.name, item);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = toy_gradient(run.gradients, key, i, published_value(params, tensor.name, i), scale);
  }
}

std::uint64_t published_hash(Engine& engine) {
  const Engine::Evaluation evaluation = engine.evaluation();
  std::uint64_t sum = 0;
  for (const Unit& unit : engine.forward_order()) {
    const ParamLease lease = engine.gather(unit);
    for (const Tensor& tensor : unit.tensors) {
      for (std::size_t i = 0; i < tensor.element_count(); ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(published_value(lease, tensor.name, i));
        sum += scramble(std::hash<std::string>()(tensor.name) + scramble(i) + bits);
      }
    }
  }
  return sum;
}

}  // namespace

void toy_initial(const Tensor& tensor, std::size_t first, std::span<float> values) {
  fill_normal(values, 11, tensor.name, first, 0.5f);
}

std::uint64_t toy_item(int rank, int world_size, int step, int micro) {
  return static_cast<std::uint64_t>(step) * 1000003u + static_cast<std::uint64_t>(micro * world_size + rank);
}

std::uint64_t toy_key(std::string_view tensor, std::uint64_t item) {
  return scramble(item * 77 + std::hash<std::string_view>()(tensor));
}

float toy_gradient(ToyGradients kind, std::uint64_t key, std::size_t i, float published, double scale) {
  const std::uint64_t bits = scramble(key + i);
  if (kind == ToyGradients::exact) return static_cast<float>(static_cast<int>(bits % 9) - 4);
  const float noise = static_cast<float>(static_cast<double>(bits >> 11) * 0x1p-53 - 0.5);
  return (published * 0.25f + noise * 0.01f) * static_cast<float>(scale);
}

double toy_weight(int rank, int step, int micro) { return 1 + (rank * 5 + step * 3 + micro * 2) % 7; }

std::vector<Unit> toy_units() {
  std::vector<Unit> units(6);
  units[0] = {.name = "embed", .tensors = {{.name = "table", .shape = {61, 37}, .decay = Decay::off}}};
  units[1] = {.name = "block.0",
              .tensors = {{.name = "b0.w", .shape = {53, 41}},
                          {.name = "b0.frozen", .shape = {17, 3}, .training = Training::frozen},
                          {.name = "b0.bias", .shape = {41}, .decay = Decay::off, .lr_factor = 0.5f},
                          {.name = "b0.empty", .shape = {0, 4}},
                          {.name = "b0.scalar", .shape = {}, .decay = Decay::off}}};
  units[2] = {.name = "block.1", .tensors = {{.name = "b1.w", .shape = {101, 31}}, {.name = "b1.one", .shape = {1}}}};
  units[3] = {.name = "adapter", .tensors = {{.name = "ad.frozen", .shape = {29, 31}, .training = Training::frozen}}};
  units[4] = {.name = "nothing", .tensors = {}};
  units[5] = {.name = "head", .tensors = {{.name = "h.scale", .shape = {2}}, {.name = "h.shift", .shape = {1, 1, 1}}}};
  return units;
}

std::vector<double> ToyResult::norms() const {
  std::vector<double> values;
  for (const StepReport& report : reports) values.push_back(report.grad_norm);
  return values;
}

void toy_micro_batch(Engine& engine, const ToyRun& run, int rank, int world_size, int step, int micro) {
  const auto weight = run.weight ? run.weight : toy_weight;
  engine.micro_batch({.weight = weight(rank, step, micro)});
  engine.record_loss(1.0 + rank + step);
  const std::uint64_t item = toy_item(rank, world_size, step, micro);
  for (const Unit& unit : engine.forward_order()) engine.gather(unit);
  std::vector<float> values;
  for (const Unit& unit : engine.backward_order()) {
    const ParamLease params = engine.gather(unit);
    GradLease grads = engine.gradients(unit);
    for (const Tensor& tensor : unit.tensors) {
      if (tensor.training == Training::frozen) continue;
      fill_gradients(run, params, tensor, item, engine.loss_scale(), values);
      store_gradients(grads, tensor.name, values);
    }
    grads.commit();
  }
}

ToyResult train_toy(Communicator& world, const ToyRun& run) {
  const auto optimizer = run.optimizer ? run.optimizer : adamw({.beta2 = 0.95f, .weight_decay = 0.1f});
  Engine engine(toy_units(), optimizer, world, run.options);
  engine.initialize(
      [](const Tensor& tensor, std::size_t first, std::span<float> values) { toy_initial(tensor, first, values); });
  ToyResult result;
  for (int step = 0; step < run.steps; ++step) {
    for (int micro = 0; micro < run.accumulate; ++micro) {
      toy_micro_batch(engine, run, world.rank(), world.size(), step, micro);
    }
    if (run.before_step) run.before_step(engine, world.rank(), step);
    result.reports.push_back(engine.step({.lr = 0.01, .clip_norm = run.clip_norm}));
    if (run.after_step) run.after_step(engine, world.rank(), step);
  }
  result.published = published_hash(engine);
  result.state = engine.state_hash();
  result.device_bytes.push_back(engine.device_bytes());
  result.planned_bytes = engine.plan().total_bytes(TierKind::device);
  const StepReport& last = result.reports.back();
  if (run.after_step) return result;  // which may have moved what the last report tells
  if (last.host_bytes != engine.plan().total_bytes(TierKind::host) ||
      last.nvme_bytes != engine.plan().total_bytes(TierKind::nvme)) {
    throw std::runtime_error("host or nvme hold other bytes than planned:\n" + engine.plan().table());
  }
  return result;
}

std::vector<std::string> on_each_rank(int ranks, const std::function<void(int, Communicator&)>& work,
                                      const Deadlines& deadlines) {
  auto world = local_world(ranks, deadlines);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto own = std::move(world[static_cast<std::size_t>(rank)]);
      try {
        work(rank, *own);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

ToyResult run_toy(const ToyRun& run) {
  std::vector<ToyResult> results(static_cast<std::size_t>(run.ranks));
  const auto errors = on_each_rank(run.ranks, [&](int rank, Communicator& world) {
    results[static_cast<std::size_t>(rank)] = train_toy(world, run);
  });
  // The cause rather than what it did to the peers.
  for (const bool of_peers : {false, true}) {
    for (const std::string& error : errors) {
      if (!error.empty() && error.starts_with("peer_lost") == of_peers) throw std::runtime_error(error);
    }
  }
  for (std::size_t rank = 1; rank < results.size(); ++rank) {
    const bool same = results[rank].state == results[0].state && results[rank].published == results[0].published &&
                      results[rank].norms() == results[0].norms();
    if (!same) throw std::runtime_error("rank " + std::to_string(rank) + " ended with other values than rank 0");
    results[0].device_bytes.push_back(results[rank].device_bytes[0]);
  }
  return results[0];
}

}  // namespace strata::test
