#include "optim/checks.h"

#include <cmath>

#include <fmt/format.h>

#include <strata/error.h>

namespace strata::optim {
namespace {

[[noreturn]] void refuse(std::string_view optimizer, const std::string& text) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", optimizer, text));
}

}  // namespace

void check_fraction(std::string_view optimizer, std::string_view setting, float value) {
  if (value >= 0 && value < 1) return;
  refuse(optimizer, fmt::format("{} is {}, which is not in [0, 1)", setting, value));
}

void check_nonnegative(std::string_view optimizer, std::string_view setting, float value) {
  if (value >= 0 && std::isfinite(value)) return;
  refuse(optimizer, fmt::format("{} is {}, which is not finite and at least 0", setting, value));
}

void check_update(std::string_view optimizer, const UpdatePiece& piece, const UpdateStep& step,
                  std::size_t moment_count) {
  if (!(step.lr >= 0) || !std::isfinite(step.lr)) {
    refuse(optimizer, fmt::format("lr is {}, which is not finite and at least 0", step.lr));
  }
  if (step.applied_count == 0) refuse(optimizer, "applied_count is 0; the first applied step is 1");
  if (!std::isfinite(step.gradient_scale)) {
    refuse(optimizer, fmt::format("gradient_scale is {}, which is not finite", step.gradient_scale));
  }
  check_nonnegative(optimizer, "lr_factor", step.lr_factor);
  if (piece.gradient_dtype != Dtype::f32 && piece.gradient_dtype != Dtype::bf16) {
    refuse(optimizer, fmt::format("gradients are {}, not f32 or bf16", to_string(piece.gradient_dtype)));
  }
  if (piece.published_dtype != Dtype::f32 && piece.published_dtype != Dtype::bf16 &&
      piece.published_dtype != Dtype::f16) {
    refuse(optimizer,
           fmt::format("published parameters are {}, not f32, bf16 or f16", to_string(piece.published_dtype)));
  }
  if (piece.count == 0) return;
  bool complete = piece.master != nullptr && piece.gradient != nullptr && piece.published != nullptr;
  for (std::size_t i = 0; i < moment_count; ++i) complete = complete && piece.moments[i] != nullptr;
  if (!complete) refuse(optimizer, fmt::format("a piece of {} elements lacks one of its arrays", piece.count));
}

}  // namespace strata::optim
