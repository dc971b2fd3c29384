// Floating-point arithmetic as IEEE 754 has it by default, for the time of a kernel.
#pragma once

#include <immintrin.h>

namespace strata::detail {

// Round to nearest, denormals neither flushed nor read as zero, exceptions masked; the caller's mode comes back with
// the destructor. The compiler may move arithmetic of the same function over it: hold it in the function that calls the
// kernel.
class DefaultMxcsr {
 public:
  DefaultMxcsr() { _mm_setcsr(0x1F80); }
  DefaultMxcsr(const DefaultMxcsr&) = delete;
  DefaultMxcsr& operator=(const DefaultMxcsr&) = delete;
  ~DefaultMxcsr() { _mm_setcsr(callers_); }

 private:
  unsigned callers_ = _mm_getcsr();
};

}  // namespace strata::detail
