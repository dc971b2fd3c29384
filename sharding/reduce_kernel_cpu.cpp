#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sharding/reduce_kernel_cpu.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // first: it includes this file once per target
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <strata/detail/cast.h>

#include "sharding/reduce_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace strata::sharding::detail_cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using F64 = hn::CappedTag<double, 8>;
using VF32 = hn::Vec<F32>;
using VF64 = hn::Vec<F64>;

// Eight f64 lanes are this many vectors, of which half an f32 vector fills one.
constexpr std::size_t lane_vectors = 8 / hn::MaxLanes(F64());
constexpr std::size_t step = hn::MaxLanes(F32());

HWY_INLINE void AddSquare(VF64 value, VF64& lanes) { lanes = hn::Add(lanes, hn::Mul(value, value)); }

// `vector` counts the f32 vectors of a turn.
HWY_INLINE void AddSquares(VF32 values, std::size_t vector, VF64* squares) {
#if HWY_TARGET == HWY_SCALAR
  AddSquare(hn::PromoteTo(F64(), values), squares[vector % lane_vectors]);
#else
  const hn::Half<F32> half;
  AddSquare(hn::PromoteTo(F64(), hn::LowerHalf(half, values)), squares[2 * vector % lane_vectors]);
  AddSquare(hn::PromoteTo(F64(), hn::UpperHalf(half, values)), squares[(2 * vector + 1) % lane_vectors]);
#endif
}

HWY_INLINE VF32 LoadWide(const float* from) { return hn::LoadU(F32(), from); }

HWY_INLINE VF32 LoadWide(const bf16* from) {
  const hn::Rebind<std::uint16_t, F32> d16;
  const hn::Rebind<std::uint32_t, F32> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from)));
  return hn::BitCast(F32(), hn::ShiftLeft<16>(bits));
}

// Harmless beyond the end of the source.
HWY_INLINE void PrefetchAt(const void* at, std::uintptr_t ahead_bytes) {
  hwy::Prefetch(reinterpret_cast<const std::uint8_t*>(reinterpret_cast<std::uintptr_t>(at) + ahead_bytes));
}

// Shared memory has small pages, at whose ends the hardware's own prefetch stops.
HWY_INLINE void PrefetchAhead(const void* at) { PrefetchAt(at, 2048); }

// Called for each leaf; at the first of a page, touches the page after the next, so that its translation is there and
// the hardware's prefetch has begun when the sum arrives.
HWY_INLINE void TouchPageAhead(const void* at, std::size_t leaf_bytes) {
  constexpr std::uintptr_t page_bytes = 4096;
  if (reinterpret_cast<std::uintptr_t>(at) % page_bytes >= leaf_bytes) return;
  PrefetchAt(at, 2 * page_bytes);
  PrefetchAt(at, 2 * page_bytes + 128);
}

// One leaf at `first`. kSources: 1, 2, or 0 for as many as there are. Returns its sum of squares.
template <typename T, int kSources, ReduceMode kMode, bool kStream>
HWY_INLINE double ReduceLeaf(const ReduceSource* sources, std::size_t source_count, std::size_t first,
                             float* HWY_RESTRICT accumulator) {
  const F32 d;
  const F64 d64;
  const auto term = [&](std::size_t k, std::size_t i) HWY_ATTR {
    return hn::Mul(hn::Set(d, sources[k].weight), LoadWide(static_cast<const T*>(sources[k].elements) + i));
  };
  VF64 squares[lane_vectors];
  for (VF64& lane : squares) lane = hn::Zero(d64);
  const std::size_t end = first + norm_leaf_count;
  for (std::size_t i = first; i < end;) {
    // A turn is 16 elements: a line of f32, and each of the lane vectors is met in its place.
    for (std::size_t k = 0; k < (kSources == 0 ? source_count : kSources); ++k) {
      PrefetchAhead(static_cast<const T*>(sources[k].elements) + i);
    }
    for (std::size_t v = 0; v < 16 / step; ++v, i += step) {
      VF32 sum = term(0, i);
      if constexpr (kSources == 2) sum = hn::Add(sum, term(1, i));
      if constexpr (kSources == 0) {
        for (std::size_t k = 1; k < source_count; ++k) sum = hn::Add(sum, term(k, i));
      }
      if constexpr (kMode == ReduceMode::add) sum = hn::Add(hn::LoadU(d, accumulator + i), sum);
      if constexpr (kStream) {
        hn::Stream(sum, d, accumulator + i);
      } else {
        hn::StoreU(sum, d, accumulator + i);
      }
      AddSquares(sum, v, squares);
    }
  }
  HWY_ALIGN double lanes[8];
  for (std::size_t k = 0; k < lane_vectors; ++k) hn::Store(squares[k], d64, lanes + k * hn::MaxLanes(F64()));
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void Note(double norm, std::size_t leaf, const float* own, FirstBadLeaf& bad) {
  if (std::isfinite(norm) || bad.leaf != no_leaf) return;
  bad.leaf = leaf;
  if (own != nullptr) std::memcpy(bad.own, own, sizeof(bad.own));
}

template <typename T, int kSources, ReduceMode kMode, bool kStream>
void ReduceLeaves(const ReduceJob& job, FirstBadLeaf& bad) {
  bool in_place = false;
  for (const ReduceSource& source : job.sources) in_place |= source.elements == job.accumulator;
  HWY_ALIGN float own[norm_leaf_count];
  for (std::size_t leaf = 0; leaf < job.count / norm_leaf_count; ++leaf) {
    const std::size_t first = leaf * norm_leaf_count;
    if (in_place) std::memcpy(own, job.accumulator + first, sizeof(own));
    for (const ReduceSource& source : job.sources) {
      TouchPageAhead(static_cast<const T*>(source.elements) + first, norm_leaf_count * sizeof(T));
    }
    const double norm =
        ReduceLeaf<T, kSources, kMode, kStream>(job.sources.data(), job.sources.size(), first, job.accumulator);
    if (job.leaf_norms != nullptr) job.leaf_norms[leaf] = norm;
    if (HWY_UNLIKELY(!std::isfinite(norm))) Note(norm, leaf, in_place ? own : nullptr, bad);
  }
  if constexpr (kStream) hwy::FlushStream();
}

template <typename T, int kSources>
void ReduceByMode(const ReduceJob& job, bool stream, FirstBadLeaf& bad) {
  if (job.mode == ReduceMode::add) return ReduceLeaves<T, kSources, ReduceMode::add, false>(job, bad);
  if (stream) return ReduceLeaves<T, kSources, ReduceMode::store, true>(job, bad);
  ReduceLeaves<T, kSources, ReduceMode::store, false>(job, bad);
}

template <typename T>
void ReduceByCount(const ReduceJob& job, bool stream, FirstBadLeaf& bad) {
  if (job.sources.size() == 1) return ReduceByMode<T, 1>(job, stream, bad);
  if (job.sources.size() == 2) return ReduceByMode<T, 2>(job, stream, bad);
  ReduceByMode<T, 0>(job, stream, bad);
}

// terms = weight * elements, rounded to the reduce dtype.
void WeighLeaf(const ReduceSource& source, const ReduceJob& job, std::size_t first, std::span<float> terms) {
  const F32 d;
  const float* wide = terms.data();
  if (job.dtype == Dtype::f16) {
    detail::cast(std::span(static_cast<const f16*>(source.elements) + first, norm_leaf_count), terms);
  } else if (job.dtype == Dtype::bf16) {
    detail::cast(std::span(static_cast<const bf16*>(source.elements) + first, norm_leaf_count), terms);
  } else {
    wide = static_cast<const float*>(source.elements) + first;
  }
  const VF32 weight = hn::Set(d, source.weight);
  for (std::size_t i = 0; i < norm_leaf_count; i += step) {
    hn::StoreU(hn::Mul(weight, hn::LoadU(d, wide + i)), d, terms.data() + i);
  }
  if (job.reduce_dtype == Dtype::bf16) {
    std::array<bf16, norm_leaf_count> narrow;
    detail::cast(terms, narrow);
    detail::cast(narrow, terms);
  } else if (job.reduce_dtype == Dtype::f16) {
    std::array<f16, norm_leaf_count> narrow;
    detail::cast(terms, narrow);
    detail::cast(narrow, terms);
  }
}

// For f16 sources and terms that are rounded: through buffers of a leaf.
void ReduceRounded(const ReduceJob& job, FirstBadLeaf& bad) {
  const F32 d;
  HWY_ALIGN std::array<float, norm_leaf_count> sum;
  HWY_ALIGN std::array<float, norm_leaf_count> terms;
  HWY_ALIGN float own[norm_leaf_count];
  for (std::size_t leaf = 0; leaf < job.count / norm_leaf_count; ++leaf) {
    const std::size_t first = leaf * norm_leaf_count;
    std::memcpy(own, job.accumulator + first, sizeof(own));
    WeighLeaf(job.sources[0], job, first, sum);
    for (std::size_t k = 1; k < job.sources.size(); ++k) {
      WeighLeaf(job.sources[k], job, first, terms);
      for (std::size_t i = 0; i < norm_leaf_count; i += step) {
        hn::Store(hn::Add(hn::Load(d, sum.data() + i), hn::Load(d, terms.data() + i)), d, sum.data() + i);
      }
    }
    const ReduceSource summed{sum.data(), 1.0f, 0};
    float* target = job.accumulator + first;
    const double norm = job.mode == ReduceMode::add
                            ? ReduceLeaf<float, 1, ReduceMode::add, false>(&summed, 1, 0, target)
                            : ReduceLeaf<float, 1, ReduceMode::store, false>(&summed, 1, 0, target);
    if (job.leaf_norms != nullptr) job.leaf_norms[leaf] = norm;
    Note(norm, leaf, own, bad);
  }
}

// Nothing to add: zeros are stored, or what is there is measured as it is.
void ReduceNothing(const ReduceJob& job, FirstBadLeaf& bad) {
  const std::size_t leaf_count = job.count / norm_leaf_count;
  if (job.mode == ReduceMode::store) std::memset(job.accumulator, 0, leaf_count * norm_leaf_count * sizeof(float));
  for (std::size_t leaf = 0; leaf < leaf_count; ++leaf) {
    float* target = job.accumulator + leaf * norm_leaf_count;
    const ReduceSource itself{target, 1.0f, 0};  // times 1, stored where it was: the same bits
    const double norm = ReduceLeaf<float, 1, ReduceMode::store, false>(&itself, 1, 0, target);
    if (job.leaf_norms != nullptr) job.leaf_norms[leaf] = norm;
    Note(norm, leaf, nullptr, bad);
  }
}

void ReduceWholeLeaves(const ReduceJob& job, bool stream, FirstBadLeaf& bad) {
  if (job.sources.empty()) return ReduceNothing(job, bad);
  if (job.dtype == Dtype::f16 || job.reduce_dtype != Dtype::f32) return ReduceRounded(job, bad);
  if (job.dtype == Dtype::bf16) return ReduceByCount<bf16>(job, stream, bad);
  ReduceByCount<float>(job, stream, bad);
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::sharding::detail_cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::sharding::detail_cpu {

HWY_EXPORT(ReduceWholeLeaves);

namespace {

// A shard that the caches would not keep until its update is written past them.
constexpr std::size_t stream_bytes = std::size_t{256} << 10;

bool streams(const ReduceJob& job) {
  if (job.count * sizeof(float) < stream_bytes || reinterpret_cast<std::uintptr_t>(job.accumulator) % 64 != 0)
    return false;
  for (const ReduceSource& source : job.sources) {
    if (source.elements == job.accumulator) return false;
  }
  return true;
}

}  // namespace

void reduce_whole_leaves(const ReduceJob& job, FirstBadLeaf& bad) {
  HWY_DYNAMIC_DISPATCH(ReduceWholeLeaves)(job, streams(job), bad);
}

}  // namespace strata::sharding::detail_cpu
#endif  // HWY_ONCE
