// Causal attention with rotary embedding, grouped queries, and no T x T matrix: scores live one block at a time.
//
//   q, k turned by position (half-split pairs);  s = q k / sqrt(d), causal;  o = softmax(s) v
//
// The backward pass computes the blocks of s again from q, k and the log of each row's sum of exponentials.
// Algorithm: Dao et al., FlashAttention (arXiv 2205.14135), with whole rows of scores in the forward pass.
#pragma once

#include <cstddef>
#include <span>

namespace llm {

struct AttentionShape {
  std::size_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;

  std::size_t query_columns() const { return heads * head_dim; }
  std::size_t qkv_columns() const { return (heads + 2 * kv_heads) * head_dim; }
};

// cos and sin of position * theta^(-2i / head_dim), (seq, head_dim / 2) each.
struct RotaryTables {
  const float* cosine = nullptr;
  const float* sine = nullptr;
};
void fill_rotary_tables(std::size_t seq, std::size_t head_dim, double theta, float* cosine, float* sine);

// Floats that one thread needs for either pass.
std::size_t attention_scratch_count(std::size_t seq, std::size_t head_dim);

template <class Activation>
struct Attention {
  AttentionShape shape;
  RotaryTables rotary;
  Activation* qkv = nullptr;         // (B T, q | k | v), not turned; the backward pass leaves their gradients here
  Activation* out = nullptr;         // (B T, heads * head_dim): written by forward, read by backward
  float* log_sums = nullptr;         // (B, heads, T): written by forward, read by backward
  const Activation* dout = nullptr;  // (B T, heads * head_dim), backward only
  float* scratch = nullptr;          // thread_count() times attention_scratch_count floats, 64-byte aligned
};

// Activation: float, strata::bf16. Threads share the work by sequence and key/value head.
template <class Activation>
void attention_forward(const Attention<Activation>& pass);
template <class Activation>
void attention_backward(const Attention<Activation>& pass);

}  // namespace llm
