#include <fmt/format.h>

#include <strata/detail/default_mxcsr.h>
#include <strata/optimizer.h>

#include "optim/checks.h"
#include "optim/kernels.h"

namespace strata {
namespace {

constexpr std::array<std::string_view, 1> moments = {"exp_avg"};

class Lion final : public Optimizer {
 public:
  explicit Lion(const LionOptions& options) : options_(options) {}

  std::string_view name() const override { return "lion"; }
  std::span<const std::string_view> moment_names() const override { return moments; }
  std::string settings() const override {
    return fmt::format("beta1={} beta2={} weight_decay={}", options_.beta1, options_.beta2, options_.weight_decay);
  }

  UpdateOutcome update(const UpdatePiece& piece, const UpdateStep& step) const override {
    optim::check_update(name(), piece, step, moments.size());
    const detail::DefaultMxcsr default_mode;
    return optim::lion_cpu(optim::lion_constants(options_, step), piece);
  }

 private:
  LionOptions options_;
};

}  // namespace

std::shared_ptr<const Optimizer> lion(const LionOptions& options) {
  optim::check_fraction("lion", "beta1", options.beta1);
  optim::check_fraction("lion", "beta2", options.beta2);
  optim::check_nonnegative("lion", "weight_decay", options.weight_decay);
  return std::make_shared<Lion>(options);
}

}  // namespace strata
