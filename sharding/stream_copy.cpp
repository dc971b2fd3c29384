#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sharding/stream_copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // first: it includes this file once per target
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "sharding/stream_copy.h"

HWY_BEFORE_NAMESPACE();
namespace strata::sharding {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// REQUIRES target at 64 bytes.
void StreamLines(std::uint8_t* HWY_RESTRICT target, const std::uint8_t* HWY_RESTRICT source, std::size_t line_count) {
  const hn::CappedTag<std::uint8_t, 64> d;
  constexpr std::size_t step = hn::MaxLanes(hn::CappedTag<std::uint8_t, 64>());
  for (const std::uint8_t* end = source + 64 * line_count; source != end; source += step, target += step) {
    hn::Stream(hn::LoadU(d, source), d, target);
  }
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace strata::sharding
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace strata::sharding {

HWY_EXPORT(StreamLines);

void large_copy(void* target, const void* source, std::size_t bytes) {
  if (bytes >= stream_copy_bytes) return stream_copy(target, source, bytes);
  if (bytes != 0) std::memcpy(target, source, bytes);
}

void stream_copy(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  auto* to = static_cast<std::uint8_t*>(target);
  const auto* from = static_cast<const std::uint8_t*>(source);
  const std::size_t head = std::min<std::size_t>(-reinterpret_cast<std::uintptr_t>(to) % 64, bytes);
  const std::size_t line_count = (bytes - head) / 64;
  const std::size_t tail = head + 64 * line_count;
  std::memcpy(to, from, head);
  HWY_DYNAMIC_DISPATCH(StreamLines)(to + head, from + head, line_count);
  std::memcpy(to + tail, from + tail, bytes - tail);
}

}  // namespace strata::sharding
#endif  // HWY_ONCE
