// RMSNorm with the residual sum in the same pass: x' = x + delta; h = w * x' / sqrt(mean(x'^2) + eps).
#pragma once

#include <cstddef>

namespace llm {

template <class Activation>
struct NormForward {
  std::size_t rows = 0, columns = 0;
  const float* x = nullptr;           // (rows, columns) residual stream
  const Activation* delta = nullptr;  // (rows, columns), added to x; null: nothing is added and `sum` is not written
  const float* weight = nullptr;      // (columns)
  float eps = 0;
  float* sum = nullptr;             // (rows, columns) x + delta
  Activation* h = nullptr;          // (rows, columns)
  float* reciprocal_rms = nullptr;  // (rows), for the backward pass
};

template <class Activation>
struct NormBackward {
  std::size_t rows = 0, columns = 0;
  const float* dh = nullptr;              // (rows, columns)
  const float* x = nullptr;               // (rows, columns) what was normalised
  const float* reciprocal_rms = nullptr;  // (rows)
  const float* weight = nullptr;          // (columns)
  bool accumulate = true;                 // dx += ... instead of dx = ...
  float* dx = nullptr;                    // (rows, columns)
  Activation* dx_copy = nullptr;          // (rows, columns) dx once more, for products; may be dx itself
  float* partials = nullptr;              // (norm_partial_count(rows), columns) scratch
  float* dweight = nullptr;               // (columns), stored
};

std::size_t norm_partial_count(std::size_t rows);

// Activation: float, strata::bf16.
template <class Activation>
void norm_forward(const NormForward<Activation>& pass);
template <class Activation>
void norm_backward(const NormBackward<Activation>& pass);

}  // namespace llm
