#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/update_ruler.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <strata/detail/assert.h>

#include "bench/update_ruler.h"

HWY_BEFORE_NAMESPACE();
namespace strata::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t fetch_ahead_count = 256;  // as the update does

// Loads a vector and stores it back. `nothing` is 0, which the compiler must not know: it would leave the store out.
template <class D>
HWY_INLINE hn::Vec<D> move_lanes(D d, hn::Vec<D> nothing, float* at) {
  auto* const words = reinterpret_cast<std::uint32_t*>(at);
  hwy::Prefetch(words + fetch_ahead_count);
  const auto loaded = hn::Xor(hn::LoadU(d, words), nothing);
  hn::StoreU(loaded, d, words);
  return loaded;
}

template <std::size_t gradient_bytes, std::size_t published_bytes, std::size_t moment_count>
std::uint32_t move_typed(const UpdatePiece piece) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  volatile std::uint32_t unknown = 0;
  const auto nothing = hn::Set(d, unknown);
  const auto* const gradients = static_cast<const std::byte*>(piece.gradient);
  auto* const published = static_cast<std::byte*>(piece.published);
  auto seen = hn::Zero(d);
  for (std::size_t i = 0; i < piece.count; i += 2 * lanes) {
    for (std::size_t byte = 0; byte < 2 * gradient_bytes; byte += 4) {
      const auto* const at = reinterpret_cast<const std::uint32_t*>(gradients + i * gradient_bytes + byte * lanes);
      hwy::Prefetch(at + fetch_ahead_count * gradient_bytes / 4);
      seen = hn::Or(seen, hn::LoadU(d, at));
    }
    auto* const target = reinterpret_cast<std::uint32_t*>(published + i * published_bytes);
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t at = i + half * lanes;
      const auto values = move_lanes(d, nothing, piece.master + at);
      move_lanes(d, nothing, piece.moments[0] + at);
      if constexpr (moment_count == 2) move_lanes(d, nothing, piece.moments[1] + at);
      if (published_bytes == 4 || half == 0) hn::Stream(values, d, target + half * lanes);
    }
  }
  hwy::FlushStream();
  return hn::GetLane(hn::SumOfLanes(d, seen));
}

template <std::size_t gradient_bytes, std::size_t published_bytes>
std::uint32_t move_from_to(const UpdatePiece& piece, std::size_t moment_count) {
  return moment_count == 2 ? move_typed<gradient_bytes, published_bytes, 2>(piece)
                           : move_typed<gradient_bytes, published_bytes, 1>(piece);
}

std::uint32_t move_any(const UpdatePiece& piece, std::size_t moment_count) {
  if (piece.gradient_dtype == Dtype::f32) {
    return piece.published_dtype == Dtype::f32 ? move_from_to<4, 4>(piece, moment_count)
                                               : move_from_to<4, 2>(piece, moment_count);
  }
  return piece.published_dtype == Dtype::f32 ? move_from_to<2, 4>(piece, moment_count)
                                             : move_from_to<2, 2>(piece, moment_count);
}

}  // namespace strata::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::bench {

HWY_EXPORT(move_any);

std::uint32_t move_as_update(const UpdatePiece& piece, std::size_t moment_count) {
  STRATA_ASSERT(piece.count % 64 == 0 && reinterpret_cast<std::uintptr_t>(piece.published) % 64 == 0);
  return HWY_DYNAMIC_DISPATCH(move_any)(piece, moment_count);
}

std::size_t moved_bytes_per_element(const UpdatePiece& piece, std::size_t moment_count) {
  return bytes_per_element(piece.gradient_dtype) + bytes_per_element(piece.published_dtype) + 8 * (1 + moment_count);
}

}  // namespace strata::bench
#endif
