// A pass over rows with activations of either type, behind one type: what a function of a SIMD target is called with,
// as templates have no place in the table of targets.
#pragma once

#include <strata/dtype.h>

#include <cstddef>

#include "parallel.h"

namespace llm {

template <template <class> class Pass>
struct AnyPass {
  explicit AnyPass(const Pass<float>& pass) : f32(&pass) {}
  explicit AnyPass(const Pass<strata::bf16>& pass) : bf16(&pass) {}

  const Pass<float>* f32 = nullptr;  // one of the two
  const Pass<strata::bf16>* bf16 = nullptr;
};

// Calls rows(pass, first, last) for ranges that cover the pass's rows, from several threads at once.
template <template <class> class Pass, class Activation, class Rows>
void run_rows(const Pass<Activation>& pass, const Rows& rows) {
  const AnyPass<Pass> any(pass);
  parallel_rows(pass.rows, [&](std::size_t first, std::size_t last) { rows(any, first, last); });
}

}  // namespace llm
