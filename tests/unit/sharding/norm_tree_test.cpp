#include "sharding/norm_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace strata::sharding {
namespace {

std::vector<double> random_leaves(std::size_t count) {
  std::mt19937_64 random(count);
  std::uniform_real_distribution<double> value(0, 1e3);
  std::vector<double> leaves(count);
  for (double& leaf : leaves) leaf = value(random);
  return leaves;
}

// The definition, recursively.
double reference_node(const std::vector<double>& leaves, std::uint32_t level, std::size_t index) {
  if (level == 0) return leaves[index];
  const double left = reference_node(leaves, level - 1, 2 * index);
  const bool has_right = (2 * index + 1) << (level - 1) < leaves.size();
  return has_right ? left + reference_node(leaves, level - 1, 2 * index + 1) : left;
}

double reference_root(const std::vector<double>& leaves) {
  std::uint32_t level = 0;
  while ((std::size_t{1} << level) < leaves.size()) ++level;
  return reference_node(leaves, level, 0);
}

double root_of_split(const std::vector<double>& leaves, const std::vector<std::size_t>& borders) {
  std::vector<NormNode> all;
  std::vector<NormNode> nodes(norm_node_count_most(leaves.size()));
  for (std::size_t part = 0; part + 1 < borders.size(); ++part) {
    std::vector<double> own(leaves.begin() + static_cast<std::ptrdiff_t>(borders[part]),
                            leaves.begin() + static_cast<std::ptrdiff_t>(borders[part + 1]));
    const std::size_t count = norm_nodes(own, borders[part], leaves.size(), nodes);
    EXPECT_LE(count, norm_node_count_most(leaves.size()));
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(nodes[i].value, reference_node(leaves, nodes[i].level, nodes[i].index));
      all.push_back(nodes[i]);
    }
  }
  return norm_root(all, leaves.size());
}

TEST(NormTree, AnySplitInTwoHasTheBitsOfOneRank) {
  for (std::size_t count = 1; count <= 40; ++count) {
    const auto leaves = random_leaves(count);
    const double expected = reference_root(leaves);
    for (std::size_t border = 0; border <= count; ++border) {
      EXPECT_EQ(root_of_split(leaves, {0, border, count}), expected) << count << " leaves, border " << border;
    }
  }
}

TEST(NormTree, RandomSplitsHaveTheBitsOfOneRank) {
  std::mt19937_64 random(7);
  for (const std::size_t count : {100u, 1023u, 1024u, 1025u, 4999u}) {
    const auto leaves = random_leaves(count);
    const double expected = reference_root(leaves);
    for (const std::size_t parts : {1u, 2u, 3u, 4u, 7u, 50u}) {
      std::vector<std::size_t> borders(parts + 1);
      for (std::size_t& border : borders) border = random() % (count + 1);
      borders.front() = 0;
      borders.back() = count;
      std::sort(borders.begin(), borders.end());
      EXPECT_EQ(root_of_split(leaves, borders), expected) << count << " leaves in " << parts;
    }
  }
}

TEST(NormTree, EachLeafByItself) {
  const auto leaves = random_leaves(37);
  std::vector<std::size_t> borders(38);
  for (std::size_t i = 0; i < borders.size(); ++i) borders[i] = i;
  EXPECT_EQ(root_of_split(leaves, borders), reference_root(leaves));
}

TEST(NormTree, NoLeavesAreZero) {
  std::vector<NormNode> nodes(norm_node_count_most(0));
  EXPECT_EQ(norm_nodes({}, 0, 0, nodes), 0u);
  EXPECT_EQ(norm_root({}, 0), 0);
}

TEST(NormTree, MissingLeavesAreNotReadAsZeros) {
  std::vector<double> leaves{1, 2, -0.0};
  EXPECT_TRUE(std::signbit(root_of_split({-0.0}, {0, 1})));
  EXPECT_EQ(root_of_split(leaves, {0, 2, 3}), 3);
}

}  // namespace
}  // namespace strata::sharding
