#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/sgd_cpu.cpp"
#include <hwy/foreach_target.h>

#include "optim/kernels.h"
#include "optim/one_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

template <Momentum kind>
struct SgdRule : SgdConstants {
  static constexpr int moment_count = 1;

  template <class D, class V = hn::Vec<D>>
  HWY_INLINE void apply(D d, V gradient, V& master, V& moment) const {
    const V decayed = hn::Add(gradient, hn::Mul(hn::Set(d, weight_decay), master));
    moment = hn::Add(hn::Mul(hn::Set(d, momentum), moment), decayed);
    V direction = moment;
    if constexpr (kind == Momentum::nesterov) {
      direction = hn::Add(decayed, hn::Mul(hn::Set(d, momentum), moment));
    }
    master = hn::Sub(master, hn::Mul(hn::Set(d, lr), direction));
  }
};

UpdateOutcome sgd_one_pass(const SgdConstants& constants, const UpdatePiece& piece) {
  return one_pass(SgdRule<Momentum::plain>{constants}, piece);
}

UpdateOutcome nesterov_one_pass(const SgdConstants& constants, const UpdatePiece& piece) {
  return one_pass(SgdRule<Momentum::nesterov>{constants}, piece);
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "optim/reference_pass.h"

namespace strata::optim {

HWY_EXPORT(sgd_one_pass);
HWY_EXPORT(nesterov_one_pass);

UpdateOutcome sgd_cpu(const SgdConstants& constants, const UpdatePiece& piece) {
  return HWY_DYNAMIC_DISPATCH(sgd_one_pass)(constants, piece);
}

UpdateOutcome nesterov_cpu(const SgdConstants& constants, const UpdatePiece& piece) {
  return HWY_DYNAMIC_DISPATCH(nesterov_one_pass)(constants, piece);
}

UpdateOutcome sgd_reference(const SgdConstants& c, const UpdatePiece& piece) {
  return reference_pass(c.gradient_scale, piece, [&c](float gradient, float& master, float& moment, float&) {
    moment = c.momentum * moment + (gradient + c.weight_decay * master);
    master = master - c.lr * moment;
  });
}

UpdateOutcome nesterov_reference(const SgdConstants& c, const UpdatePiece& piece) {
  return reference_pass(c.gradient_scale, piece, [&c](float gradient, float& master, float& moment, float&) {
    const float decayed = gradient + c.weight_decay * master;
    moment = c.momentum * moment + decayed;
    master = master - c.lr * (decayed + c.momentum * moment);
  });
}

}  // namespace strata::optim
#endif
