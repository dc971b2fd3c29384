// Which name somebody meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace strata::detail {

// Insertions, deletions, substitutions and swaps of neighbours that turn one text into the other (optimal string
// alignment; O(a b) time).
std::size_t edit_distance(std::string_view a, std::string_view b);

// Those of `names` that are nearest to `wanted`; several when they are equally near, none when all are further than
// half of its length (and than 1).
std::vector<std::string_view> nearest_names(std::string_view wanted, const std::vector<std::string_view>& names);

}  // namespace strata::detail
