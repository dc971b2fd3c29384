#include <fmt/format.h>

#include <strata/detail/default_mxcsr.h>
#include <strata/optimizer.h>

#include "optim/checks.h"
#include "optim/kernels.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 2> moments = {"exp_avg", "exp_avg_sq"};

class AdamW final : public Optimizer {
 public:
  explicit AdamW(const AdamWOptions& options) : options_(options) {}

  std::string_view name() const override { return "adamw"; }
  std::span<const std::string_view> moment_names() const override { return moments; }
  std::string settings() const override {
    return fmt::format("beta1={} beta2={} eps={} weight_decay={}", options_.beta1, options_.beta2, options_.eps,
                       options_.weight_decay);
  }

  UpdateOutcome update(const UpdatePiece& piece, const UpdateStep& step) const override {
    optim::check_update(name(), piece, step, moments.size());
    const detail::DefaultMxcsr default_mode;
    return optim::adamw_cpu(optim::adamw_constants(options_, step), piece);
  }

 private:
  AdamWOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> adamw(const AdamWOptions& options) {
  optim::check_fraction("adamw", "beta1", options.beta1);
  optim::check_fraction("adamw", "beta2", options.beta2);
  optim::check_nonnegative("adamw", "eps", options.eps);
  optim::check_nonnegative("adamw", "weight_decay", options.weight_decay);
  return std::make_shared<AdamW>(options);
}

}  // namespace strata
