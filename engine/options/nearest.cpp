#include "engine/options/nearest.h"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::detail {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i-2, i-1 and i of the table of distances between prefixes.
  std::array<std::vector<std::size_t>, 3> rows;
  for (auto& row : rows) row.resize(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) rows[1][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    rows[2][0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = rows[1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[2][j] = std::min({rows[1][j] + 1, rows[2][j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[2][j] = std::min(rows[2][j], rows[0][j - 2] + 1);
      }
    }
    std::rotate(rows.begin(), rows.begin() + 1, rows.end());
  }
  return rows[1][b.size()];
}

std::vector<std::string_view> nearest_names(std::string_view wanted, const std::vector<std::string_view>& names) {
  constexpr std::size_t length_max = 128;  // a longer text is no misspelt name
  std::vector<std::string_view> nearest;
  if (wanted.size() > length_max) return nearest;
  std::size_t least = std::max<std::size_t>(wanted.size() / 2, 1);
  for (const std::string_view name : names) {
    const std::size_t distance = edit_distance(wanted, name);
    if (distance > least) continue;
    if (distance < least) nearest.clear();
    least = distance;
    nearest.push_back(name);
  }
  return nearest;
}

}  // namespace strata::detail
