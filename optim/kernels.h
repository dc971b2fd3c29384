// The arithmetic of each optimizer on one piece: SIMD, chosen at run time, and the scalar reference with the same bits.
#pragma once

#include <cstdint>

#include <strata/optimizer.h>

namespace strata::optim {

// What a step says, derived in f64 and each rounded once to f32.
struct AdamWConstants {
  float gradient_scale = 1;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float eps = 0;
  float keep = 1;               // 1 - lr wd
  float step_size = 0;          // lr / (1 - beta1^t)
  float second_correction = 1;  // 1 / sqrt(1 - beta2^t)
};

struct SgdConstants {
  float gradient_scale = 1;
  float momentum = 0;
  float weight_decay = 0;
  float lr = 0;
};

struct LionConstants {
  float gradient_scale = 1;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float keep = 1;  // 1 - lr wd
  float lr = 0;
};

double power(double base, std::uint64_t exponent);  // by squaring

AdamWConstants adamw_constants(const AdamWOptions& options, const UpdateStep& step);
SgdConstants sgd_constants(const SgdOptions& options, const UpdateStep& step);
LionConstants lion_constants(const LionOptions& options, const UpdateStep& step);

// REQUIRES a checked piece and a default MXCSR. A NaN, whatever its sign and payload, is stored as 0x7FC00000 in master
// and moments, since SIMD targets differ in which of two NaNs an operation hands on.
UpdateOutcome adamw_cpu(const AdamWConstants& constants, const UpdatePiece& piece);
UpdateOutcome sgd_cpu(const SgdConstants& constants, const UpdatePiece& piece);
UpdateOutcome nesterov_cpu(const SgdConstants& constants, const UpdatePiece& piece);
UpdateOutcome lion_cpu(const LionConstants& constants, const UpdatePiece& piece);

UpdateOutcome adamw_reference(const AdamWConstants& constants, const UpdatePiece& piece);
UpdateOutcome sgd_reference(const SgdConstants& constants, const UpdatePiece& piece);
UpdateOutcome nesterov_reference(const SgdConstants& constants, const UpdatePiece& piece);
UpdateOutcome lion_reference(const LionConstants& constants, const UpdatePiece& piece);

}  // namespace strata::optim
