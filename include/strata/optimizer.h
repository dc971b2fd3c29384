// Element-wise optimizers on flat pieces of state, and the learning-rate schedules that go with them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <strata/dtype.h>
#include <strata/unit.h>

namespace strata {

inline constexpr std::size_t moments_max = 2;

// A piece of one shard. All pointers address `count` elements; none overlap.
struct UpdatePiece {
  std::size_t count = 0;
  float* master = nullptr;                       // read and written
  std::array<float*, moments_max> moments = {};  // read and written; the first moment_names().size() are used
  const void* gradient = nullptr;                // f32 or bf16, only read
  Dtype gradient_dtype = Dtype::f32;
  void* published = nullptr;  // written: the new master as published_dtype (f32, bf16 or f16)
  Dtype published_dtype = Dtype::bf16;
};

// What one step says to all pieces. Everything derived is computed in f64 and rounded once to f32.
struct UpdateStep {
  double lr = 0;                    // of this step, before lr_factor; an f32 value
  std::uint64_t applied_count = 1;  // t of beta^t: 1 in the first applied step
  float gradient_scale = 1.0f;      // multiplies each gradient first: clip, 1 / weight and 1 / loss scale folded
  Decay decay = Decay::on;
  float lr_factor = 1.0f;
};

struct UpdateOutcome {
  // Masters that are finite and became infinite as published f16.
  std::uint64_t published_overflow_count = 0;
};

// INVARIANT element-wise: a shard updated whole or in any pieces, by any number of threads, has the same bits, on every
// SIMD target. No fused multiply-add; MXCSR is set to its default for the call and restored.
// Threading: const and stateless, so any thread at any time on disjoint pieces.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::string_view name() const = 0;                           // "adamw"
  virtual std::span<const std::string_view> moment_names() const = 0;  // {"exp_avg", "exp_avg_sq"}; all start at 0
  virtual std::string settings() const = 0;                            // "beta1=0.9 ...": compared between ranks
  virtual UpdateOutcome update(const UpdatePiece& piece, const UpdateStep& step) const = 0;
};

// Decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2), bias-corrected:
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
//   p = p (1 - lr wd) - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
struct AdamWOptions {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float eps = 1e-8f;
  float weight_decay = 0.01f;
};

enum class Momentum : std::uint8_t { plain, nesterov };

// d = g + wd p (coupled, as in torch);  b = momentum b + d;  p -= lr b  (nesterov: lr (d + momentum b)). b starts at 0.
struct SgdOptions {
  float momentum = 0.9f;
  float weight_decay = 0.0f;
  Momentum kind = Momentum::plain;
};

// Chen et al., arXiv 2302.06675, algorithm 2: p = p (1 - lr wd) - lr sign(beta1 m + (1 - beta1) g), then
// m = beta2 m + (1 - beta2) g; sign(+-0) = 0.
struct LionOptions {
  float beta1 = 0.9f;
  float beta2 = 0.99f;
  float weight_decay = 0.0f;
};

// Throw Error{invalid_argument} for values that are not finite or out of [0, 1) resp. [0, inf).
std::shared_ptr<const Optimizer> adamw(const AdamWOptions& options = {});
std::shared_ptr<const Optimizer> sgd(const SgdOptions& options = {});
std::shared_ptr<const Optimizer> lion(const LionOptions& options = {});

enum class LrShape : std::uint8_t { constant, linear, cosine };

// Warm-up: lr (s + 1) / warmup_steps for s < warmup_steps. Then constant, or from lr at s = warmup_steps - 1 down to
// lr * final_fraction at s = total_steps - 1, linearly or along a half cosine; later steps stay there. Without warm-up
// the peak is s = 0.
struct LrSchedule {
  LrShape shape = LrShape::constant;
  double lr = 1e-3;
  std::uint64_t warmup_steps = 0;
  std::uint64_t total_steps = 0;  // REQUIRES > warmup_steps unless constant
  double final_fraction = 0.1;

  // The rate of step s = 0, 1, ...: computed in f64, rounded once to f32. Throws Error{invalid_argument} for a field
  // that is not finite or out of its range.
  float at(std::uint64_t step) const;
};

}  // namespace strata
