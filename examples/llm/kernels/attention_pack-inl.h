// What both passes of attention do first: keys (turned) and values of one head of one sequence, packed.
#if defined(STRATA_LLM_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_LLM_ATTENTION_PACK_INL_H_
#undef STRATA_LLM_ATTENTION_PACK_INL_H_
#else
#define STRATA_LLM_ATTENTION_PACK_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/attention_layout.h"
#include "kernels/attention_tile-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

inline void fill_zero(float* at, std::size_t count) { std::memset(at, 0, count * sizeof(float)); }

template <class A>
void pack_keys_and_values(const Attention<A>& pass, std::size_t sequence, std::size_t kv_head,
                          const AttentionScratch& at) {
  const AttentionShape& shape = pass.shape;
  const std::size_t dim = shape.head_dim, half = dim / 2, columns = shape.qkv_columns();
  fill_zero(at.keys, at.padded_seq * at.padded_dim);
  fill_zero(at.values, at.padded_seq * at.padded_dim);
  for (std::size_t t = 0; t < shape.seq; ++t) {
    const A* row = pass.qkv + (sequence * shape.seq + t) * columns + (shape.heads + kv_head) * dim;
    turn_row<Turn::forth>(row, half, pass.rotary.cosine + t * half, pass.rotary.sine + t * half, 1.0f,
                          at.keys + t * at.padded_dim);
    copy_row(row + shape.kv_heads * dim, dim, at.values + t * at.padded_dim);
  }
  transpose_to_panels(at.keys, at.padded_seq, at.padded_dim, at.key_panels);
}

template <class A>
void pack_queries(const Attention<A>& pass, std::size_t sequence, std::size_t head, std::size_t first,
                  std::size_t count, const AttentionScratch& at) {
  const AttentionShape& shape = pass.shape;
  const std::size_t dim = shape.head_dim, half = dim / 2;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (std::size_t r = 0; r < count; ++r) {
    const std::size_t t = first + r;
    const A* row = pass.qkv + (sequence * shape.seq + t) * shape.qkv_columns() + head * dim;
    turn_row<Turn::forth>(row, half, pass.rotary.cosine + t * half, pass.rotary.sine + t * half, scale,
                          at.queries + r * at.padded_dim);
  }
  fill_zero(at.queries + count * at.padded_dim, (query_block - count) * at.padded_dim);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();
#endif
