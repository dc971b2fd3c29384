#include <strata/dtype.h>

#include "kernels/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_forward.cpp"
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

// scores (query_block, padded_seq): those at or left of the diagonal, and some to its right.
inline void score_rows(std::size_t first_query, std::size_t row_count, std::size_t dim, const AttentionScratch& at) {
  const std::size_t width = panel_columns(), lanes = hn::Lanes(Lanes());
  const std::size_t key_end = first_query + row_count;
  for (std::size_t panel = 0; panel < key_end; panel += width) {
    for (std::size_t r = 0; r < row_count; r += tile_rows) {
      const std::size_t row_end = first_query + r + tile_rows;  // keys that the tile's last row sees
      if (panel >= row_end) continue;
      const std::size_t vectors = (std::min(width, row_end - panel) + lanes - 1) / lanes;
      const Operand a{at.queries + r * at.padded_dim, at.padded_dim, 1};
      tile_of<Write::store>(vectors, a, at.key_panels + panel * at.padded_dim, width, dim,
                            at.scores + r * at.padded_seq + panel, at.padded_seq);
    }
  }
}

struct RowSum {
  float maximum;
  float sum;
};

// Turns the first `count` scores of a row into e^(s - max), and what the product reads beyond them into 0.
inline RowSum exponentiate(float* row, std::size_t count, std::size_t read_count) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t whole = round_up(count, lanes);
  const auto lowest = hn::Set(d, -1e30f);
  const auto last_mask = hn::FirstN(d, count - (whole - lanes));
  hn::StoreU(hn::IfThenElse(last_mask, hn::LoadU(d, row + whole - lanes), lowest), d, row + whole - lanes);
  auto largest = hn::LoadU(d, row);
  for (std::size_t j = lanes; j < whole; j += lanes) largest = hn::Max(largest, hn::LoadU(d, row + j));
  const float maximum = max_of_lanes(d, largest);
  auto sum = hn::Zero(d);
  for (std::size_t j = 0; j < whole; j += lanes) {
    const auto value = exponential(d, hn::Sub(hn::LoadU(d, row + j), hn::Set(d, maximum)));
    sum = hn::Add(sum, value);
    hn::StoreU(value, d, row + j);
  }
  for (std::size_t j = whole; j < read_count; ++j) row[j] = 0;
  return {maximum, sum_of_lanes(d, sum)};
}

// outs (query_block, padded_dim) = e^(scores) v, a block of keys at a time so that its values stay in the nearest
// cache.
inline void sum_values(std::size_t first_query, std::size_t row_count, const AttentionScratch& at) {
  fill_zero(at.outs, query_block * at.padded_dim);
  for (std::size_t block = 0; block < first_query + row_count; block += key_block) {
    for (std::size_t r = 0; r < row_count; r += tile_rows) {
      const std::size_t row_end = first_query + r + tile_rows;
      if (block >= row_end) continue;
      const Operand a{at.scores + r * at.padded_seq + block, at.padded_seq, 1};
      add_rows(a, at.values + block * at.padded_dim, at.padded_dim, std::min(key_block, row_end - block),
               at.outs + r * at.padded_dim);
    }
  }
}

template <class A>
void forward_queries(const Attention<A>& pass, std::size_t sequence, std::size_t head, const AttentionScratch& at) {
  const AttentionShape& shape = pass.shape;
  const std::size_t dim = shape.head_dim;
  for (std::size_t first = 0; first < shape.seq; first += query_block) {
    const std::size_t count = std::min(query_block, shape.seq - first), row_count = round_up(count, tile_rows);
    const std::size_t row0 = sequence * shape.seq + first;
    pack_queries(pass, sequence, head, first, count, at);
    score_rows(first, row_count, dim, at);
    float* log_sums = pass.log_sums + (sequence * shape.heads + head) * shape.seq + first;
    for (std::size_t r = 0; r < row_count; ++r) {
      const RowSum row = exponentiate(at.scores + r * at.padded_seq, first + r + 1, first + round_up(r + 1, tile_rows));
      at.row_terms[r] = 1.0f / row.sum;
      if (r < count) log_sums[r] = row.maximum + std::log(row.sum);
    }
    sum_values(first, row_count, at);
    for (std::size_t r = 0; r < count; ++r) {
      scale_row(at.outs + r * at.padded_dim, dim, at.row_terms[r],
                pass.out + (row0 + r) * shape.query_columns() + head * dim);
    }
  }
}

template <class A>
void forward_group(const Attention<A>& pass, std::size_t index, float* scratch) {
  const AttentionShape& shape = pass.shape;
  const AttentionScratch at(scratch, shape.seq, shape.head_dim);
  const std::size_t sequence = index / shape.kv_heads, kv_head = index % shape.kv_heads;
  const std::size_t group = shape.heads / shape.kv_heads;
  pack_keys_and_values(pass, sequence, kv_head, at);
  for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    forward_queries(pass, sequence, head, at);
  }
}

void forward(const AnyPass<Attention>& pass, std::size_t index, float* scratch) {
  pass.f32 ? forward_group(*pass.f32, index, scratch) : forward_group(*pass.bf16, index, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace llm {

HWY_EXPORT(forward);

void fill_rotary_tables(std::size_t seq, std::size_t head_dim, double theta, float* cosine, float* sine) {
  const std::size_t half = head_dim / 2;
  for (std::size_t t = 0; t < seq; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      cosine[t * half + i] = static_cast<float>(std::cos(angle));
      sine[t * half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

std::size_t attention_scratch_count(std::size_t seq, std::size_t head_dim) {
  return AttentionScratch(nullptr, seq, head_dim).count;
}

template <class A>
void attention_forward(const Attention<A>& pass) {
  run_groups(pass, HWY_DYNAMIC_DISPATCH(forward));
}

template void attention_forward(const Attention<float>&);
template void attention_forward(const Attention<strata::bf16>&);

}  // namespace llm
#endif
