#include <cmath>

#include "optim/kernels.h"

namespace strata::optim {
namespace {

float rounded(double value) { return static_cast<float>(value); }

double rate(const UpdateStep& step) { return step.lr * double{step.lr_factor}; }

double decay(float weight_decay, const UpdateStep& step) {
  return step.decay == Decay::on ? double{weight_decay} : 0.0;
}

}  // namespace

double power(double base, std::uint64_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base *= base) {
    if ((exponent & 1) != 0) result *= base;
  }
  return result;
}

AdamWConstants adamw_constants(const AdamWOptions& options, const UpdateStep& step) {
  const double first_correction = 1 - power(options.beta1, step.applied_count);
  const double second_correction = 1 - power(options.beta2, step.applied_count);
  return {
      .gradient_scale = step.gradient_scale,
      .beta1 = options.beta1,
      .one_minus_beta1 = rounded(1 - double{options.beta1}),
      .beta2 = options.beta2,
      .one_minus_beta2 = rounded(1 - double{options.beta2}),
      .eps = options.eps,
      .keep = rounded(1 - rate(step) * decay(options.weight_decay, step)),
      .step_size = rounded(rate(step) / first_correction),
      .second_correction = rounded(1 / std::sqrt(second_correction)),
  };
}

SgdConstants sgd_constants(const SgdOptions& options, const UpdateStep& step) {
  return {
      .gradient_scale = step.gradient_scale,
      .momentum = options.momentum,
      .weight_decay = rounded(decay(options.weight_decay, step)),
      .lr = rounded(rate(step)),
  };
}

LionConstants lion_constants(const LionOptions& options, const UpdateStep& step) {
  return {
      .gradient_scale = step.gradient_scale,
      .beta1 = options.beta1,
      .one_minus_beta1 = rounded(1 - double{options.beta1}),
      .beta2 = options.beta2,
      .one_minus_beta2 = rounded(1 - double{options.beta2}),
      .keep = rounded(1 - rate(step) * decay(options.weight_decay, step)),
      .lr = rounded(rate(step)),
  };
}

}  // namespace strata::optim
