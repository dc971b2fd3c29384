#include "contract/optimizer_contract.h"

#include "optim/kernels.h"

namespace strata::test {
namespace {

OptimizerCase adamw_case(const std::string& name, const AdamWOptions& options) {
  return {name, adamw(options), [options](const UpdatePiece& piece, const UpdateStep& step) {
            return optim::adamw_reference(optim::adamw_constants(options, step), piece);
          }};
}

OptimizerCase sgd_case(const std::string& name, const SgdOptions& options) {
  return {name, sgd(options), [options](const UpdatePiece& piece, const UpdateStep& step) {
            const optim::SgdConstants constants = optim::sgd_constants(options, step);
            return options.kind == Momentum::nesterov ? optim::nesterov_reference(constants, piece)
                                                      : optim::sgd_reference(constants, piece);
          }};
}

OptimizerCase lion_case(const std::string& name, const LionOptions& options) {
  return {name, lion(options), [options](const UpdatePiece& piece, const UpdateStep& step) {
            return optim::lion_reference(optim::lion_constants(options, step), piece);
          }};
}

INSTANTIATE_TEST_SUITE_P(Cpu, OptimizerContract,
                         testing::Values(adamw_case("adamw", {.weight_decay = 0.1f}),
                                         sgd_case("sgd", {.weight_decay = 0.01f}),
                                         sgd_case("nesterov", {.weight_decay = 0.01f, .kind = Momentum::nesterov}),
                                         lion_case("lion", {.weight_decay = 0.1f})),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test
