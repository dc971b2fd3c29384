// A least-squares fit y = w x + b over any number of ranks:  strata run -n 2 -- hello_units
#include <strata/strata.h>

#include <cstdio>
#include <exception>

namespace {

strata::Unit make_line() {
  strata::Unit line;
  line.name = "line";
  line.tensors.resize(2);
  line.tensors[0].name = "w";  // an empty shape is one element
  line.tensors[1].name = "b";
  return line;
}

// One point on 3 x - 2: gather, compute, commit. The leases end with the scope, before step().
void learn(strata::Engine& engine, const strata::Unit& line, float x) {
  engine.micro_batch();
  const strata::ParamLease p = engine.gather(line);
  strata::GradLease g = engine.gradients(line);
  const float error = p.f32("w")[0] * x + p.f32("b")[0] - (3.0f * x - 2.0f);
  g.f32("w")[0] = 2.0f * error * x;
  g.f32("b")[0] = 2.0f * error;
  g.commit();
  engine.record_loss(error * error);
}

void fit(strata::Communicator& world, strata::Options options) {
  options.dtype = strata::Dtype::f32;
  strata::Engine engine({make_line()}, strata::adamw({.weight_decay = 0.0f}), world, options);
  engine.initialize([](const strata::Tensor&, std::size_t, std::span<float> values) { values[0] = 0.0f; });
  const strata::Unit line = engine.forward_order()[0];

  strata::StepReport report;
  while (engine.step_count() < 500) {
    learn(engine, line, static_cast<float>(engine.step_count() % 5) - 2.0f + 0.5f * static_cast<float>(world.rank()));
    report = engine.step({.lr = 0.05});
  }
  const strata::ParamLease p = engine.gather(line);
  if (world.rank() == 0) std::printf("w %.3f  b %.3f  loss %.2g\n", p.f32("w")[0], p.f32("b")[0], report.loss);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const strata::Options options = strata::parse_options(argc, argv);
    const auto world = strata::join_from_env();
    fit(*world, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hello_units: %s\n", error.what());
    return 1;
  }
}
