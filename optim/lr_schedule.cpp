#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <strata/error.h>
#include <strata/optimizer.h>

namespace strata {
namespace {

void check(const LrSchedule& schedule) {
  const auto refuse = [](const std::string& text) {
    throw Error(ErrorCode::invalid_argument, "learning-rate schedule: " + text);
  };
  if (!(schedule.lr >= 0) || !std::isfinite(schedule.lr)) {
    refuse(fmt::format("lr is {}, which is not finite and at least 0", schedule.lr));
  }
  if (schedule.shape == LrShape::constant) return;
  if (!(schedule.final_fraction >= 0 && schedule.final_fraction <= 1)) {
    refuse(fmt::format("final_fraction is {}, which is not in [0, 1]", schedule.final_fraction));
  }
  if (schedule.total_steps <= schedule.warmup_steps) {
    refuse(fmt::format("total_steps is {}, which is not above warmup_steps, {}", schedule.total_steps,
                       schedule.warmup_steps));
  }
}

// What is left of lr at `progress` in [0, 1] from the peak to the last step.
double fraction(const LrSchedule& schedule, double progress) {
  const double falling =
      schedule.shape == LrShape::linear ? 1 - progress : (1 + std::cos(std::numbers::pi * progress)) / 2;
  return schedule.final_fraction + (1 - schedule.final_fraction) * falling;
}

}  // namespace

float LrSchedule::at(std::uint64_t step) const {
  check(*this);
  if (step < warmup_steps) {
    return static_cast<float>(lr * (static_cast<double>(step + 1) / static_cast<double>(warmup_steps)));
  }
  if (shape == LrShape::constant) return static_cast<float>(lr);
  const std::uint64_t peak_step = std::max<std::uint64_t>(warmup_steps, 1) - 1;
  const std::uint64_t last_step = total_steps - 1;
  if (step <= peak_step) return static_cast<float>(lr);
  if (step >= last_step) return static_cast<float>(lr * final_fraction);
  const double progress = static_cast<double>(step - peak_step) / static_cast<double>(last_step - peak_step);
  return static_cast<float>(lr * fraction(*this, progress));
}

}  // namespace strata
