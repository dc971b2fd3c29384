#include <strata/dtype.h>

#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_backward.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "kernels/attention_groups.h"
#include "kernels/attention_layout.h"
#include "kernels/attention_pack-inl.h"
#include "kernels/attention_tile-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

struct Blocks {  // queries [query, query + rows) against keys [key, key + key_block), rows in whole tiles
  std::size_t query, rows, key;

  std::size_t row_end(std::size_t r) const { return query + r + tile_rows; }  // keys that tile r's last row sees
};

// c (query_block, key_block) = a (query_block, dim) times a block of panels, where the diagonal leaves anything.
inline void block_product(const Blocks& at, const float* a, std::size_t stride, const float* panels, std::size_t dim,
                          float* c) {
  const std::size_t width = panel_columns(), lanes = hn::Lanes(Lanes());
  for (std::size_t panel = 0; panel < key_block; panel += width) {
    for (std::size_t r = 0; r < at.rows; r += tile_rows) {
      if (at.key + panel >= at.row_end(r)) continue;
      const std::size_t vectors = (std::min(width, at.row_end(r) - at.key - panel) + lanes - 1) / lanes;
      tile_of<Write::store>(vectors, {a + r * stride, stride, 1}, panels + (at.key + panel) * stride, width, dim,
                            c + r * key_block + panel, key_block);
    }
  }
}

// In place: s to p = e^(s - log_sum) and dp to ds = p (dp - sum(do * o)); both 0 right of the diagonal.
inline void softmax_gradient(const Blocks& at, const AttentionScratch& scratch) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t r = 0; r < at.rows; ++r) {
    float* p = scratch.scores + r * key_block;
    float* ds = scratch.dscores + r * key_block;
    const auto log_sum = hn::Set(d, scratch.row_terms[r]);
    const auto dot = hn::Set(d, scratch.row_terms[query_block + r]);
    const std::size_t seen = at.query + r + 1 > at.key ? std::min(key_block, at.query + r + 1 - at.key) : 0;
    std::size_t j = 0;
    for (; j < seen; j += lanes) {
      auto value = exponential(d, hn::Sub(hn::LoadU(d, p + j), log_sum));
      auto gradient = hn::Mul(value, hn::Sub(hn::LoadU(d, ds + j), dot));
      if (j + lanes > seen) {
        const auto mask = hn::FirstN(d, seen - j);
        value = hn::IfThenElseZero(mask, value);
        gradient = hn::IfThenElseZero(mask, gradient);
      }
      hn::StoreU(value, d, p + j);
      hn::StoreU(gradient, d, ds + j);
    }
    for (; j < key_block; j += lanes) {
      hn::StoreU(hn::Zero(d), d, p + j);
      hn::StoreU(hn::Zero(d), d, ds + j);
    }
  }
}

// dv += p' do, dk += ds' q, dq += ds k
inline void add_gradients(const Blocks& at, const AttentionScratch& scratch) {
  const std::size_t dim = scratch.padded_dim, key_end = std::min(key_block, at.row_end(at.rows - tile_rows) - at.key);
  for (std::size_t j = 0; j < key_end; j += tile_rows) {
    const std::size_t key = at.key + j;
    const std::size_t first = key > at.query ? key - at.query : 0;  // the first query that sees the tile's first key
    const std::size_t depth = at.rows - first, from = first * key_block + j;
    add_rows({scratch.scores + from, 1, key_block}, scratch.outs + first * dim, dim, depth,
             scratch.dvalues + key * dim);
    add_rows({scratch.dscores + from, 1, key_block}, scratch.queries + first * dim, dim, depth,
             scratch.dkeys + key * dim);
  }
  for (std::size_t r = 0; r < at.rows; r += tile_rows) {
    if (at.key >= at.row_end(r)) continue;
    add_rows({scratch.dscores + r * key_block, key_block, 1}, scratch.keys + at.key * dim, dim,
             std::min(key_block, at.row_end(r) - at.key), scratch.dqueries + r * dim);
  }
}

// Rows beyond `count` get a log-sum that makes their p 0.
template <class A>
void pack_outs(const Attention<A>& pass, std::size_t row0, std::size_t head, std::size_t count, const float* log_sums,
               const AttentionScratch& at) {
  const Lanes d;
  const std::size_t dim = pass.shape.head_dim, columns = pass.shape.query_columns();
  for (std::size_t r = 0; r < count; ++r) {
    const A* dout = pass.dout + (row0 + r) * columns + head * dim;
    const A* out = pass.out + (row0 + r) * columns + head * dim;
    float* packed = at.outs + r * at.padded_dim;
    auto dot = hn::Zero(d);
    for (std::size_t i = 0; i < dim; i += hn::Lanes(d)) {
      const auto gradient = load_part(d, dout + i, dim - i);
      dot = hn::MulAdd(gradient, load_part(d, out + i, dim - i), dot);
      store_part(gradient, d, packed + i, dim - i);
    }
    at.row_terms[r] = log_sums[r];
    at.row_terms[query_block + r] = sum_of_lanes(d, dot);
  }
  fill_zero(at.outs + count * at.padded_dim, (query_block - count) * at.padded_dim);
  for (std::size_t r = count; r < query_block; ++r) {
    at.row_terms[r] = 1e30f;
    at.row_terms[query_block + r] = 0;
  }
}

template <class A>
void backward_queries(const Attention<A>& pass, std::size_t sequence, std::size_t head, const AttentionScratch& at) {
  const AttentionShape& shape = pass.shape;
  const std::size_t dim = shape.head_dim, half = dim / 2;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (std::size_t first = 0; first < shape.seq; first += query_block) {
    const std::size_t count = std::min(query_block, shape.seq - first);
    const std::size_t row0 = sequence * shape.seq + first;
    pack_queries(pass, sequence, head, first, count, at);
    pack_outs(pass, row0, head, count, pass.log_sums + (sequence * shape.heads + head) * shape.seq + first, at);
    fill_zero(at.dqueries, query_block * at.padded_dim);
    for (std::size_t key = 0; key < first + count; key += key_block) {
      const Blocks blocks{first, round_up(count, tile_rows), key};
      block_product(blocks, at.queries, at.padded_dim, at.key_panels, dim, at.scores);
      block_product(blocks, at.outs, at.padded_dim, at.value_panels, dim, at.dscores);
      softmax_gradient(blocks, at);
      add_gradients(blocks, at);
    }
    for (std::size_t r = 0; r < count; ++r) {
      const std::size_t t = first + r;
      turn_row<Turn::back>(at.dqueries + r * at.padded_dim, half, pass.rotary.cosine + t * half,
                           pass.rotary.sine + t * half, scale,
                           pass.qkv + (row0 + r) * shape.qkv_columns() + head * dim);
    }
  }
}

template <class A>
void backward_group(const Attention<A>& pass, std::size_t index, float* scratch) {
  const AttentionShape& shape = pass.shape;
  const AttentionScratch at(scratch, shape.seq, shape.head_dim);
  const std::size_t sequence = index / shape.kv_heads, kv_head = index % shape.kv_heads;
  const std::size_t group = shape.heads / shape.kv_heads, dim = shape.head_dim, half = dim / 2;
  pack_keys_and_values(pass, sequence, kv_head, at);
  transpose_to_panels(at.values, at.padded_seq, at.padded_dim, at.value_panels);
  fill_zero(at.dkeys, at.padded_seq * at.padded_dim);
  fill_zero(at.dvalues, at.padded_seq * at.padded_dim);
  for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    backward_queries(pass, sequence, head, at);
  }
  for (std::size_t t = 0; t < shape.seq; ++t) {
    A* row = pass.qkv + (sequence * shape.seq + t) * shape.qkv_columns() + (shape.heads + kv_head) * dim;
    turn_row<Turn::back>(at.dkeys + t * at.padded_dim, half, pass.rotary.cosine + t * half, pass.rotary.sine + t * half,
                         1.0f, row);
    scale_row(at.dvalues + t * at.padded_dim, dim, 1.0f, row + shape.kv_heads * dim);
  }
}

void backward(const AnyPass<Attention>& pass, std::size_t index, float* scratch) {
  pass.f32 ? backward_group(*pass.f32, index, scratch) : backward_group(*pass.bf16, index, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(backward);

template <class A>
void attention_backward(const Attention<A>& pass) {
  run_groups(pass, HWY_DYNAMIC_DISPATCH(backward));
}

template void attention_backward(const Attention<float>&);
template void attention_backward(const Attention<strata::bf16>&);

}  // namespace llm
#endif
