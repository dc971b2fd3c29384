// A rank that a test starts, freezes and kills: rank_program ACT [--strata-...].
//
//   loop     all_gather and reduce_scatter with checked sums, for ever; says "round 1" after the first
//   once     one round of it, and leaves
//   order    rank 1 makes another call than the others in the third round
//   throws   rank 1 fails between two calls and tells the others
//   engine   trains a small model for ever; says "step 1" after the first step
//   engine-throws   the same, but rank 1 runs out of memory between two calls of the engine
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <strata/strata.h>

namespace {

constexpr std::size_t shard_count = 4096;

void say(const char* what, int number) {
  std::printf("%s %d\n", what, number);
  std::fflush(stdout);
}

// Called before each round with its number, from 1; false ends the loop.
using BeforeRound = std::function<bool(int)>;

void work(strata::Communicator& world, const BeforeRound& before_round) {
  const auto size = static_cast<std::size_t>(world.size());
  const std::size_t bytes = size * shard_count * sizeof(float);
  const strata::ExchangeBlock gathered = world.allocate(bytes, strata::Sharing::common);
  const strata::ExchangeBlock gradients = world.allocate(bytes, strata::Sharing::per_rank);
  const std::span<float> all(reinterpret_cast<float*>(gathered.bytes().data()), size * shard_count);
  const std::span<float> mine(reinterpret_cast<float*>(gradients.bytes().data()), size * shard_count);
  std::vector<float> shard(shard_count, static_cast<float>(world.rank() + 1)), sum(shard_count);
  const auto total = static_cast<float>(size * (size + 1) / 2);
  for (int round = 1; before_round(round); ++round) {
    world.all_gather(shard.data(), all.data(), shard_count, strata::Dtype::f32, {});
    if (all[(size - 1) * shard_count] != static_cast<float>(size)) throw std::runtime_error("wrong bytes gathered");
    std::fill(mine.begin(), mine.end(), static_cast<float>(world.rank() + 1));
    world.reduce_scatter(mine.data(), shard_count, strata::Dtype::f32, {.accumulator = sum}, {});
    if (sum[shard_count - 1] != total) throw std::runtime_error("wrong sum");
    world.barrier({});  // before anybody overwrites what others may still read
    if (round == 1) say("round", 1);
  }
}

std::vector<strata::Unit> small_model() {
  std::vector<strata::Unit> units(3);
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].name = "unit." + std::to_string(i);
    units[i].tensors.resize(1);
    units[i].tensors[0].name = "weight." + std::to_string(i);
    units[i].tensors[0].shape = {1000};
  }
  return units;
}

void train(strata::Communicator& world, const strata::Options& options, const BeforeRound& before_step) {
  strata::Engine engine(small_model(), strata::adamw({}), world, options);
  engine.initialize([](const strata::Tensor&, std::size_t, std::span<float> values) {
    std::fill(values.begin(), values.end(), 0.5f);
  });
  for (int step = 1; before_step(step); ++step) {
    engine.micro_batch();
    for (const strata::Unit& unit : engine.backward_order()) {
      const strata::ParamLease parameters = engine.gather(unit);
      strata::GradLease gradients = engine.gradients(unit);
      gradients.zero();
      gradients.commit();
    }
    engine.step({.lr = 1e-3});
    if (step == 1) say("step", 1);
  }
}

void run(strata::Communicator& world, const std::string& act, const strata::Options& options) {
  const auto one_of_three = [&](int round) { return world.rank() == 1 && round == 3; };
  const auto for_ever = [](int) { return true; };
  if (act == "loop") {
    work(world, for_ever);
  } else if (act == "once") {
    work(world, [](int round) { return round == 1; });
  } else if (act == "order") {
    work(world, [&](int round) {
      if (one_of_three(round)) world.barrier({.act = "another act"});
      return true;
    });
  } else if (act == "throws") {
    try {
      work(world, [&](int round) { return one_of_three(round) ? throw std::runtime_error("the data ran dry") : true; });
    } catch (const std::runtime_error& error) {
      if (world.rank() == 1) world.abort(error.what());
      throw;
    }
  } else if (act == "engine") {
    train(world, options, for_ever);
  } else if (act == "engine-throws") {
    train(world, options, [&](int step) { return one_of_three(step) ? throw std::bad_alloc() : true; });
  } else {
    throw std::runtime_error("no such act: " + act);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const strata::Options options = strata::parse_options(argc, argv);
    const std::string act = argc > 1 ? argv[1] : "once";
    const strata::Deadlines deadlines = {.silence_s = options.timeout_s, .call_s = options.call_timeout_s};
    const double join_s = argc > 2 ? std::stod(argv[2]) : 10;
    const auto world = strata::join_from_env({.join_s = join_s, .deadlines = deadlines});
    say("joined", world->rank());
    run(*world, act, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank_program: %s\n", error.what());
    return 3;
  }
  return 0;
}
