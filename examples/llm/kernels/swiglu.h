// SwiGLU: act = silu(gate) * up, silu(x) = x / (1 + e^-x).
#pragma once

#include <cstddef>

namespace llm {

template <class Activation>
struct SwiGlu {
  std::size_t rows = 0, columns = 0;
  Activation* gate_up = nullptr;     // (rows, 2 columns): gate | up; the backward pass leaves their gradients here
  const Activation* dact = nullptr;  // (rows, columns), backward only
  Activation* act = nullptr;  // (rows, columns), written by both: backward computes it again instead of keeping it
};

// Activation: float, strata::bf16.
template <class Activation>
void swiglu_forward(const SwiGlu<Activation>& pass);
template <class Activation>
void swiglu_backward(const SwiGlu<Activation>& pass);

}  // namespace llm
