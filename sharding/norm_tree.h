// The sum of a unit's leaves, however they are spread over ranks, with the bits that one rank alone would get.
//
// Leaves 0 .. n-1 are added pairwise: a node (level l, index k) stands for leaves [k 2^l, (k+1) 2^l) and is the sum of
// its two children, or its left child alone where no leaf of the right one exists. A node can be computed by whoever
// has all of its existing leaves; a rank with a range of leaves computes the maximal such nodes, at most 2 log2(n) + 2,
// and the nodes of all ranks give the root.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata::sharding {

struct NormNode {
  std::uint64_t index = 0;
  std::uint32_t level = 0;
  double value = 0;
};

// At least as many nodes as any range of a unit's leaves can have.
std::size_t norm_node_count_most(std::size_t leaf_count);

// The nodes of leaves [first_leaf, first_leaf + leaves.size()) of a unit of leaf_count, ascending; returns how many
// were written to `nodes`. Uses `leaves` as scratch. REQUIRES room for norm_node_count_most(leaf_count).
std::size_t norm_nodes(std::span<double> leaves, std::size_t first_leaf, std::size_t leaf_count,
                       std::span<NormNode> nodes);

// The root from the nodes of all ranks, in rank order (so ascending); 0 without leaves. Uses `nodes` as scratch.
// REQUIRES that the nodes cover each leaf of the unit once.
double norm_root(std::span<NormNode> nodes, std::size_t leaf_count);

}  // namespace strata::sharding
