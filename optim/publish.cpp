#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/publish.cpp"
#include <hwy/foreach_target.h>

#include <strata/detail/assert.h>
#include <strata/detail/default_mxcsr.h>

#include "optim/cast_lanes-inl.h"
#include "optim/publish.h"

HWY_BEFORE_NAMESPACE();
namespace strata::optim::HWY_NAMESPACE {

template <Dtype dtype>
std::size_t publish_as(float* master, void* published, std::size_t count) {
  std::size_t overflows = 0;
  for_all_lanes(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto values = one_nan(d, hn::LoadU(d, master + i));
    hn::StoreU(values, d, master + i);
    store_published<dtype>(d, values, published, i);
    overflows += overflow_count<dtype>(d, values);
  });
  return overflows;
}

std::size_t publish_values(float* master, void* published, std::size_t count, Dtype dtype) {
  if (dtype == Dtype::f32) return publish_as<Dtype::f32>(master, published, count);
  if (dtype == Dtype::bf16) return publish_as<Dtype::bf16>(master, published, count);
  return publish_as<Dtype::f16>(master, published, count);
}

}  // namespace strata::optim::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::optim {

HWY_EXPORT(publish_values);

UpdateOutcome publish(std::span<float> master, void* published, Dtype dtype) {
  STRATA_ASSERT(dtype == Dtype::f32 || dtype == Dtype::bf16 || dtype == Dtype::f16);
  const detail::DefaultMxcsr default_mode;
  return {HWY_DYNAMIC_DISPATCH(publish_values)(master.data(), published, master.size(), dtype)};
}

}  // namespace strata::optim
#endif
