// The pieces that both passes of attention are made of: packing into zero-padded f32 panels, and small products.
//
// Everything packed is padded with zeros to whole blocks, so the products have no tails. Four rows by up to
// tile_vectors vectors are summed in registers at a time.
#if defined(STRATA_LLM_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STRATA_LLM_ATTENTION_TILE_INL_H_
#undef STRATA_LLM_ATTENTION_TILE_INL_H_
#else
#define STRATA_LLM_ATTENTION_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#include "kernels/attention_layout.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace llm {
namespace HWY_NAMESPACE {

// Sixteen sums of 32 registers with AVX-512, eight of 16 elsewhere; without vectors four, as panels are packed by
// fours.
constexpr int tile_vectors = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_SCALAR ? 4 : 2;
inline std::size_t panel_columns() { return tile_vectors * hn::Lanes(Lanes()); }

struct Operand {  // element (r, k) at data[r * row_stride + k * column_stride]
  const float* data;
  std::size_t row_stride;
  std::size_t column_stride;
};

enum class Write { store, add };

template <int vectors, Write write>
HWY_INLINE void tile(const Operand& a, const float* b, std::size_t b_stride, std::size_t depth, float* c,
                     std::size_t c_stride) {
  const Lanes d;
  const std::size_t lanes = hn::Lanes(d);
  Vector sums[tile_rows][vectors];
  for (std::size_t r = 0; r < tile_rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = write == Write::add ? hn::LoadU(d, c + r * c_stride + v * lanes) : hn::Zero(d);
    }
  }
  for (std::size_t k = 0; k < depth; ++k) {
    Vector row[vectors];
    for (int v = 0; v < vectors; ++v) row[v] = hn::LoadU(d, b + k * b_stride + v * lanes);
    for (std::size_t r = 0; r < tile_rows; ++r) {
      const auto left = hn::Set(d, a.data[r * a.row_stride + k * a.column_stride]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(left, row[v], sums[r][v]);
    }
  }
  for (std::size_t r = 0; r < tile_rows; ++r) {
    for (int v = 0; v < vectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_stride + v * lanes);
  }
}

// c (4, columns) (+)= a (4, depth) b (depth, columns); columns in whole vectors, at most tile_vectors of them.
template <Write write>
HWY_INLINE void tile_of(std::size_t vectors, const Operand& a, const float* b, std::size_t b_stride, std::size_t depth,
                        float* c, std::size_t c_stride) {
  switch (vectors) {
    case 1: return tile<1, write>(a, b, b_stride, depth, c, c_stride);
    case 2: return tile<2, write>(a, b, b_stride, depth, c, c_stride);
    case 3: return tile<std::min(3, tile_vectors), write>(a, b, b_stride, depth, c, c_stride);
    default: return tile<tile_vectors, write>(a, b, b_stride, depth, c, c_stride);
  }
}

// c (4, columns) += a (4, depth) b (depth, columns), any whole number of vectors.
HWY_INLINE void add_rows(const Operand& a, const float* b, std::size_t columns, std::size_t depth, float* c) {
  const std::size_t lanes = hn::Lanes(Lanes()), width = panel_columns();
  for (std::size_t first = 0; first < columns; first += width) {
    const std::size_t vectors = std::min(width, columns - first) / lanes;
    tile_of<Write::add>(vectors, a, b + first, columns, depth, c + first, columns);
  }
}

enum class Turn { forth, back };  // back is the inverse, which is also how gradients go

// One head's row, turned by its position's angles and scaled: source and target (head_dim).
template <Turn turn, class From, class To>
void turn_row(const From* source, std::size_t half, const float* cosine, const float* sine, float scale, To* target) {
  const Lanes d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t i = 0; i < half; i += hn::Lanes(d)) {
    const std::size_t count = half - i;
    const auto a = load_part(d, source + i, count), b = load_part(d, source + half + i, count);
    const auto c = load_part(d, cosine + i, count), upright = load_part(d, sine + i, count);
    const auto s = turn == Turn::forth ? upright : hn::Neg(upright);
    store_part(hn::Mul(factor, hn::NegMulAdd(b, s, hn::Mul(a, c))), d, target + i, count);
    store_part(hn::Mul(factor, hn::MulAdd(a, s, hn::Mul(b, c))), d, target + half + i, count);
  }
}

template <class A>
void copy_row(const A* source, std::size_t count, float* target) {
  const Lanes d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    store_part(load_part(d, source + i, count - i), d, target + i, count - i);
  }
}

template <class A>
void scale_row(const float* source, std::size_t count, float scale, A* target) {
  const Lanes d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    store_part(hn::Mul(factor, load_part(d, source + i, count - i)), d, target + i, count - i);
  }
}

// to (4, 4) with row stride `width` = the transpose of from (4, 4) with row stride `stride`.
#if HWY_TARGET == HWY_SCALAR
inline void transpose_four(const float* from, std::size_t stride, float* to, std::size_t width) {
  for (std::size_t r = 0; r < 4; ++r) {
    for (std::size_t k = 0; k < 4; ++k) to[k * width + r] = from[r * stride + k];
  }
}
#else
inline void transpose_four(const float* from, std::size_t stride, float* to, std::size_t width) {
  const hn::Full128<float> d;
  const hn::Repartition<double, decltype(d)> d64;
  const auto pairs = [&](auto a) { return hn::BitCast(d64, a); };
  const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + stride);
  const auto r2 = hn::LoadU(d, from + 2 * stride), r3 = hn::LoadU(d, from + 3 * stride);
  const auto low01 = pairs(hn::InterleaveLower(d, r0, r1)), low23 = pairs(hn::InterleaveLower(d, r2, r3));
  const auto high01 = pairs(hn::InterleaveUpper(d, r0, r1)), high23 = pairs(hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, to + width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, to + 2 * width);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, to + 3 * width);
}
#endif

// rows (count, stride) to panels: panel p holds columns [p w, (p + 1) w) of the transpose, (stride, w) each. Both
// extents are multiples of four.
inline void transpose_to_panels(const float* rows, std::size_t count, std::size_t stride, float* panels) {
  const std::size_t width = panel_columns();
  for (std::size_t j = 0; j < count; j += 4) {
    float* to = panels + j / width * width * stride + j % width;
    for (std::size_t k = 0; k < stride; k += 4) transpose_four(rows + j * stride + k, stride, to + k * width, width);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace llm
HWY_AFTER_NAMESPACE();
#endif
