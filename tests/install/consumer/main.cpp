// Fits y = 2 x + 1 through the installed library: one unit, two samples.
#include <strata/strata.h>

#include <cstdio>

int main(int argc, char** argv) {
  const strata::Options options = strata::parse_options(argc, argv);
  const auto world = strata::solo_world();
  const strata::Unit line = {.name = "line",
                             .tensors = {{.name = "slope", .shape = {1}}, {.name = "offset", .shape = {1}}}};
  strata::Engine engine({line}, strata::sgd({.momentum = 0.0f}), *world, options);
  engine.initialize([](const strata::Tensor&, std::size_t, std::span<float> values) {
    for (float& value : values) value = 0;
  });

  strata::StepReport report;
  for (int step = 0; step < 100; ++step) {
    engine.micro_batch({.weight = 2});
    for (const strata::Unit& unit : engine.backward_order()) {
      const strata::ParamLease p = engine.gather(unit);
      strata::GradLease g = engine.gradients(unit);
      g.zero();
      float loss = 0;
      for (const float x : {-1.0f, 1.0f}) {
        const float error = p.f32("slope")[0] * x + p.f32("offset")[0] - (2 * x + 1);
        g.f32("slope")[0] += error * x;
        g.f32("offset")[0] += error;
        loss += error * error / 2;
      }
      engine.record_loss(loss);
      g.commit();
    }
    report = engine.step({.lr = 0.2});
  }
  std::printf("loss %.6f state %016llx\n", report.loss, static_cast<unsigned long long>(engine.state_hash()));
  return report.applied && report.loss < 1e-6 ? 0 : 1;
}
