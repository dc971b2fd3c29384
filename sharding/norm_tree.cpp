#include "sharding/norm_tree.h"

#include <algorithm>
#include <bit>

#include <strata/detail/assert.h>
#include <strata/detail/default_mxcsr.h>

namespace strata::sharding {

namespace {

// Not inlined, as norm_root_of: its arithmetic must not move over the change of MXCSR.
__attribute__((noinline)) double pairwise_sum(std::span<double> leaves) {
  for (std::size_t width = leaves.size(); width > 1; width = (width + 1) / 2) {
    for (std::size_t i = 0; i < width / 2; ++i) leaves[i] = leaves[2 * i] + leaves[2 * i + 1];
    if (width % 2 == 1) leaves[width / 2] = leaves[width - 1];
  }
  return leaves[0];
}

// The start of `nodes` is a stack of nodes that wait for their right sibling.
__attribute__((noinline)) double norm_root_of(std::span<NormNode> nodes, std::size_t leaf_count) {
  std::size_t depth = 0;
  for (NormNode top : nodes) {
    while ((std::uint64_t{1} << top.level) < leaf_count) {
      if (top.index % 2 == 1) {
        STRATA_ASSERT(depth > 0);
        const NormNode& left = nodes[--depth];
        STRATA_ASSERT(left.level == top.level && left.index + 1 == top.index);
        top.value = left.value + top.value;
      } else if ((top.index + 1) << top.level < leaf_count) {
        break;
      }
      top.index /= 2;
      ++top.level;
    }
    nodes[depth++] = top;
  }
  STRATA_ASSERT(depth == 1);
  return nodes[0].value;
}

}  // namespace

std::size_t norm_node_count_most(std::size_t leaf_count) {
  return 2 * static_cast<std::size_t>(std::bit_width(leaf_count)) + 2;
}

std::size_t norm_nodes(std::span<double> leaves, std::size_t first_leaf, std::size_t leaf_count,
                       std::span<NormNode> nodes) {
  const detail::DefaultMxcsr default_mxcsr;
  const std::size_t end = first_leaf + leaves.size();
  STRATA_ASSERT(end <= leaf_count && nodes.size() >= norm_node_count_most(leaf_count));
  std::size_t node_count = 0;
  for (std::size_t begin = first_leaf; begin < end;) {
    const auto node_end = [&](std::uint32_t level) { return std::min(begin + (std::size_t{1} << level), leaf_count); };
    std::uint32_t level = 0;
    while ((std::size_t{1} << level) < leaf_count && begin % (std::size_t{2} << level) == 0 &&
           node_end(level + 1) <= end) {
      ++level;
    }
    const double value = pairwise_sum(leaves.subspan(begin - first_leaf, node_end(level) - begin));
    nodes[node_count++] = {begin >> level, level, value};
    begin = node_end(level);
  }
  return node_count;
}

double norm_root(std::span<NormNode> nodes, std::size_t leaf_count) {
  const detail::DefaultMxcsr default_mxcsr;
  return leaf_count == 0 ? 0 : norm_root_of(nodes, leaf_count);
}

}  // namespace strata::sharding
