#include "optim/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <strata/error.h>

namespace strata::optim {

LossScaler::LossScaler(const LossScalerState& state) : state_(state) {
  int exponent = 0;
  const bool power_of_two = std::frexp(state.scale, &exponent) == 0.5;
  if (!power_of_two || state.scale < 1 || state.scale > scale_max) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("loss scale is {}, which is not a power of two from 1 to 2^24", state.scale));
  }
  if (state.applied_in_a_row >= growth_interval) {
    throw Error(ErrorCode::invalid_argument, fmt::format("loss scale: {} steps in a row, which is not below {}",
                                                         state.applied_in_a_row, growth_interval));
  }
}

void LossScaler::applied() {
  if (++state_.applied_in_a_row < growth_interval) return;
  state_ = {.scale = std::min(state_.scale * 2, scale_max), .applied_in_a_row = 0};
}

void LossScaler::skipped_nonfinite() { state_ = {.scale = std::max(state_.scale / 2, 1.0), .applied_in_a_row = 0}; }

}  // namespace strata::optim
