// Attention's work, shared out over the OpenMP team by sequence and key/value head.
#pragma once

#include <cstddef>

#include "kernels/any_pass.h"
#include "kernels/attention.h"
#include "parallel.h"

namespace llm {

// Calls group(pass, index, scratch of the calling thread) for each pair of a sequence and a key/value head, from
// several threads at once.
template <class Activation, class Group>
void run_groups(const Attention<Activation>& pass, const Group& group) {
  const AnyPass<Attention> any(pass);
  const std::size_t scratch_count = attention_scratch_count(pass.shape.seq, pass.shape.head_dim);
  parallel_ranges(pass.shape.batch * pass.shape.kv_heads, 1, [&](std::size_t index, std::size_t) {
    group(any, index, pass.scratch + static_cast<std::size_t>(thread_index()) * scratch_count);
  });
}

}  // namespace llm
