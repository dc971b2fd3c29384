// The caller's floating-point mode, as a user may have set it.
#pragma once

#include <immintrin.h>

namespace strata::test {

inline constexpr unsigned default_mxcsr = 0x1F80;
inline constexpr unsigned flushing_mxcsr = 0x1F80 | 0x8040;              // flush to zero, denormals are zero
inline constexpr unsigned rounding_up_mxcsr = 0x1F80 | 0x8040 | 0x4000;  // and towards +infinity

class MxcsrScope {
 public:
  explicit MxcsrScope(unsigned mode) { _mm_setcsr(mode); }
  MxcsrScope(const MxcsrScope&) = delete;
  MxcsrScope& operator=(const MxcsrScope&) = delete;
  ~MxcsrScope() { _mm_setcsr(callers_); }

 private:
  unsigned callers_ = _mm_getcsr();
};

inline unsigned mxcsr_control() { return _mm_getcsr() & ~0x3Fu; }  // without the sticky exception flags

}  // namespace strata::test
