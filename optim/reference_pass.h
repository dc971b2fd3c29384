// The same pass as one_pass-inl.h, one element after the other in plain C++: what every SIMD target is compared with.
#pragma once

#include <cmath>
#include <cstddef>

#include <strata/detail/cast.h>
#include <strata/optimizer.h>

namespace strata::optim {

inline float reference_gradient(const UpdatePiece& piece, std::size_t i) {
  if (piece.gradient_dtype == Dtype::f32) return static_cast<const float*>(piece.gradient)[i];
  return detail::to_f32(static_cast<const bf16*>(piece.gradient)[i]);
}

inline void reference_store(float& target, float value) {
  target = std::isnan(value) ? std::bit_cast<float>(detail::f32_nan_bits) : value;
}

// Returns whether a finite master became infinite.
inline bool reference_publish(const UpdatePiece& piece, std::size_t i) {
  const float master = piece.master[i];
  if (piece.published_dtype == Dtype::f32) {
    static_cast<float*>(piece.published)[i] = master;
    return false;
  }
  if (piece.published_dtype == Dtype::bf16) {
    static_cast<bf16*>(piece.published)[i] = detail::to_bf16(master);
    return false;
  }
  const f16 published = detail::to_f16(master);
  static_cast<f16*>(piece.published)[i] = published;
  return std::isfinite(master) && (published.bits & 0x7FFF) == 0x7C00;
}

// `rule(scaled gradient, master&, moment&, second moment&)`; with one moment the second is a stand-in.
template <class Rule>
UpdateOutcome reference_pass(float gradient_scale, const UpdatePiece& piece, const Rule& rule) {
  UpdateOutcome outcome;
  for (std::size_t i = 0; i < piece.count; ++i) {
    float master = piece.master[i];
    float first = piece.moments[0][i];
    float second = piece.moments[1] != nullptr ? piece.moments[1][i] : 0.0f;
    rule(reference_gradient(piece, i) * gradient_scale, master, first, second);
    reference_store(piece.master[i], master);
    reference_store(piece.moments[0][i], first);
    if (piece.moments[1] != nullptr) reference_store(piece.moments[1][i], second);
    outcome.published_overflow_count += reference_publish(piece, i) ? 1 : 0;
  }
  return outcome;
}

}  // namespace strata::optim
