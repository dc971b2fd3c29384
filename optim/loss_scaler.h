// The loss scale of f16 training: large enough that small gradients do not vanish, small enough that none overflows.
#pragma once

#include <cstdint>

namespace strata::optim {

struct LossScalerState {
  double scale = 65536;                // a power of two in [1, 2^24]
  std::uint32_t applied_in_a_row = 0;  // steps applied since the scale last changed, below 2,000

  friend bool operator==(const LossScalerState&, const LossScalerState&) = default;
};

// Pure: the same outcomes give the same scale, so ranks that agree on outcomes agree on the scale.
//
//   applied():            the 2,000th in a row doubles the scale, unless it is 2^24, and counts anew
//   skipped_nonfinite():  halves the scale, unless it is 1, and counts anew
//
// Steps skipped for other reasons say nothing about the scale and are not reported.
class LossScaler {
 public:
  static constexpr double scale_max = 16777216;  // 2^24: a power of two beyond f16's own range would help nobody
  static constexpr std::uint32_t growth_interval = 2000;

  LossScaler() = default;
  explicit LossScaler(const LossScalerState& state);  // throws Error{invalid_argument} for a state out of its bounds

  double scale() const { return state_.scale; }
  const LossScalerState& state() const { return state_; }

  void applied();
  void skipped_nonfinite();

 private:
  LossScalerState state_;
};

}  // namespace strata::optim
