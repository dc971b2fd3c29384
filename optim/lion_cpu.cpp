#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/lion_cpu.cpp"
#include <hwy/foreach_target.h>

#include "optim/kernels.h"
#include "optim/one_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

struct LionRule : LionConstants {
  static constexpr int moment_count = 1;

  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void apply(D d, V gradient, V& master, V& moment) const {
    const V blend = hn::Add(hn::Mul(hn::Set(d, beta1), moment), hn::Mul(hn::Set(d, one_minus_beta1), gradient));
    // blend - blend: 0 where the sign is 0, NaN where there is none.
    const V unsigned_change =
        hn::IfThenElse(hn::Gt(hn::Abs(blend), hn::Zero(d)), hn::Set(d, lr), hn::Sub(blend, blend));
    const V change = hn::CopySign(unsigned_change, blend);
    master = hn::Sub(hn::Mul(master, hn::Set(d, keep)), change);
    moment = hn::Add(hn::Mul(hn::Set(d, beta2), moment), hn::Mul(hn::Set(d, one_minus_beta2), gradient));
  }
};

UpdateOutcome lion_one_pass(const LionConstants& constants, const UpdatePiece& piece) {
  return one_pass(LionRule{constants}, piece);
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "optim/reference_pass.h"

namespace strata::optim {

HWY_EXPORT(lion_one_pass);

UpdateOutcome lion_cpu(const LionConstants& constants, const UpdatePiece& piece) {
  return HWY_DYNAMIC_DISPATCH(lion_one_pass)(constants, piece);
}

UpdateOutcome lion_reference(const LionConstants& c, const UpdatePiece& piece) {
  return reference_pass(c.gradient_scale, piece, [&c](float gradient, float& master, float& moment, float&) {
    const float blend = c.beta1 * moment + c.one_minus_beta1 * gradient;
    const float sign = blend > 0 ? 1.0f : blend < 0 ? -1.0f : blend;
    master = master * c.keep - c.lr * sign;
    moment = c.beta2 * moment + c.one_minus_beta2 * gradient;
  });
}

}  // namespace strata::optim
#endif
