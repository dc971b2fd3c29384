#include <fmt/format.h>

#include <strata/detail/default_mxcsr.h>
#include <strata/optimizer.h>

#include "optim/checks.h"
#include "optim/kernels.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 1> moments = {"momentum_buffer"};

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {}

  std::string_view name() const override { return "sgd"; }
  std::span<const std::string_view> moment_names() const override { return moments; }
  std::string settings() const override {
    return fmt::format("momentum={} weight_decay={} kind={}", options_.momentum, options_.weight_decay,
                       options_.kind == Momentum::nesterov ? "nesterov" : "plain");
  }

  UpdateOutcome update(const UpdatePiece& piece, const UpdateStep& step) const override {
    optim::check_update(name(), piece, step, moments.size());
    const detail::DefaultMxcsr default_mode;
    const optim::SgdConstants constants = optim::sgd_constants(options_, step);
    return options_.kind == Momentum::nesterov ? optim::nesterov_cpu(constants, piece)
                                               : optim::sgd_cpu(constants, piece);
  }

 private:
  SgdOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> sgd(const SgdOptions& options) {
  optim::check_fraction("sgd", "momentum", options.momentum);
  optim::check_nonnegative("sgd", "weight_decay", options.weight_decay);
  return std::make_shared<Sgd>(options);
}

}  // namespace strata
