#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_cpu.cpp"
#include <hwy/foreach_target.h>

#include "optim/kernels.h"
#include "optim/one_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

struct AdamWRule : AdamWConstants {
  static constexpr int moment_count = 2;

  // One root and one division: the correction of the second moment is folded into a factor of the root.
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void apply(D d, V gradient, V& master, V& first, V& second) const {
    first = hn::Add(hn::Mul(hn::Set(d, beta1), first), hn::Mul(hn::Set(d, one_minus_beta1), gradient));
    second =
        hn::Add(hn::Mul(hn::Set(d, beta2), second), hn::Mul(hn::Mul(hn::Set(d, one_minus_beta2), gradient), gradient));
    const V size = hn::Add(hn::Mul(hn::Sqrt(second), hn::Set(d, second_correction)), hn::Set(d, eps));
    const V change = hn::Mul(hn::Set(d, step_size), hn::Div(first, size));
    master = hn::Sub(hn::Mul(master, hn::Set(d, keep)), change);
  }
};

UpdateOutcome adamw_one_pass(const AdamWConstants& constants, const UpdatePiece& piece) {
  return one_pass(AdamWRule{constants}, piece);
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "optim/reference_pass.h"

namespace strata::optim {

HWY_EXPORT(adamw_one_pass);

UpdateOutcome adamw_cpu(const AdamWConstants& constants, const UpdatePiece& piece) {
  return HWY_DYNAMIC_DISPATCH(adamw_one_pass)(constants, piece);
}

UpdateOutcome adamw_reference(const AdamWConstants& c, const UpdatePiece& piece) {
  return reference_pass(c.gradient_scale, piece, [&c](float gradient, float& master, float& first, float& second) {
    first = c.beta1 * first + c.one_minus_beta1 * gradient;
    second = c.beta2 * second + c.one_minus_beta2 * gradient * gradient;
    const float size = std::sqrt(second) * c.second_correction + c.eps;
    master = master * c.keep - c.step_size * (first / size);
  });
}

}  // namespace strata::optim
#endif
