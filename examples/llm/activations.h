// What the forward pass leaves for the backward pass, and the scratch of both; one workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "config.h"
#include "workspace.h"

namespace llm {

// B = sequences, T = tokens of each, C = hidden, F = intermediate, Q = columns of q | k | v, V = vocabulary.
struct Capacity {
  std::size_t batch = 1, seq = 256;  // B, T at most
  bool widened = false;              // room to widen the largest unit to f32
  bool staged_gradients = false;     // room for f32 gradients of the largest unit
  bool recompute = false;            // all layers share the room of one

  std::size_t rows() const { return batch * seq; }
};

template <class A>  // what products read: float or strata::bf16
struct LayerActivations {
  float* x;              // (B T, C) residual stream as the block receives it
  A* h_attention;        // (B T, C) normalised
  float* rms_attention;  // (B T)
  A* qkv;                // (B T, Q)
  A* attended;           // (B T, heads * head_dim)
  float* log_sums;       // (B, heads, T)
  float* x_middle;       // (B T, C) after attention
  A* h_mlp;              // (B T, C)
  float* rms_mlp;        // (B T)
  A* gate_up;            // (B T, 2 F)
};

template <class A>
struct Activations {
  Activations(const Config& config, const Capacity& capacity, Workspace& workspace);

  std::vector<LayerActivations<A>> layers;
  A* delta;              // (B T, max(C, heads * head_dim)) what the next residual sum adds; in backward, d attended
  A* act;                // (B T, F)
  float* x_final;        // (B T, C)
  A* h_final;            // (B T, C)
  float* rms_final;      // (B T)
  float* logits;         // (head_rows, V)
  A* dlogits;            // (head_rows, V); the logits themselves where A is float
  double* losses;        // (B T)
  float* dx;             // (B T, C)
  A* dx_operand;         // (B T, C) the same for products; dx itself where A is float
  float* dh;             // (B T, C)
  A* dact;               // (B T, F)
  float* norm_partials;  // (norm_partial_count(B T), C)
  float* attention_scratch;
  float* cosine;              // (T, head_dim / 2)
  float* sine;                // (T, head_dim / 2)
  float* widened;             // the largest unit, or its vectors alone
  float* gradients;           // the largest unit, or nothing
  std::size_t head_rows = 0;  // rows of logits held at a time
  std::size_t widened_count = 0;
  std::size_t gradients_count = 0;
};

std::size_t largest_unit_count(const Config& config);

}  // namespace llm
