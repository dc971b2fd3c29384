#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/cast_cpu.cpp"
#include <hwy/foreach_target.h>

#include <strata/detail/assert.h>
#include <strata/detail/cast.h>
#include <strata/detail/default_mxcsr.h>

#include "optim/cast_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

void f32_to_bf16(const float* source, std::uint16_t* target, std::size_t count) {
  for_all_lanes(count, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(round_to_bf16(d, one_nan(d, hn::LoadU(d, source + i))), Halves<decltype(d)>(), target + i);
  });
}

void f32_to_f16(const float* source, std::uint16_t* target, std::size_t count) {
  for_all_lanes(count, [&](auto d, std::size_t i) HWY_ATTR {
    hn::StoreU(round_to_f16(d, hn::LoadU(d, source + i)), Halves<decltype(d)>(), target + i);
  });
}

void bf16_to_f32(const std::uint16_t* source, float* target, std::size_t count) {
  for_all_lanes(count, [&](auto d, std::size_t i) HWY_ATTR { hn::StoreU(load_bf16(d, source + i), d, target + i); });
}

void f16_to_f32(const std::uint16_t* source, float* target, std::size_t count) {
  for_all_lanes(count, [&](auto d, std::size_t i) HWY_ATTR { hn::StoreU(load_f16(d, source + i), d, target + i); });
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::optim {
namespace {

HWY_EXPORT(f32_to_bf16);
HWY_EXPORT(f32_to_f16);
HWY_EXPORT(bf16_to_f32);
HWY_EXPORT(f16_to_f32);

const std::uint16_t* halves(const void* source) { return static_cast<const std::uint16_t*>(source); }
std::uint16_t* halves(void* target) { return static_cast<std::uint16_t*>(target); }

}  // namespace
}  // namespace strata::optim

namespace strata::detail {

using namespace strata::optim;

void cast(std::span<const float> source, std::span<bf16> target) {
  STRATA_ASSERT(source.size() == target.size());
  const DefaultMxcsr default_mode;
  HWY_DYNAMIC_DISPATCH(f32_to_bf16)(source.data(), halves(target.data()), source.size());
}

void cast(std::span<const float> source, std::span<f16> target) {
  STRATA_ASSERT(source.size() == target.size());
  const DefaultMxcsr default_mode;
  HWY_DYNAMIC_DISPATCH(f32_to_f16)(source.data(), halves(target.data()), source.size());
}

void cast(std::span<const bf16> source, std::span<float> target) {
  STRATA_ASSERT(source.size() == target.size());
  HWY_DYNAMIC_DISPATCH(bf16_to_f32)(halves(source.data()), target.data(), source.size());
}

void cast(std::span<const f16> source, std::span<float> target) {
  STRATA_ASSERT(source.size() == target.size());
  HWY_DYNAMIC_DISPATCH(f16_to_f32)(halves(source.data()), target.data(), source.size());
}

}  // namespace strata::detail
#endif
