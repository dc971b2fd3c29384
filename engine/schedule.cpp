#include "engine/schedule.h"

#include <algorithm>
#include <utility>

namespace strata::engine {

void Schedule::note(std::size_t unit) {
  current_.push_back(static_cast<std::uint32_t>(unit));
  const auto from = recorded_.begin() + static_cast<std::ptrdiff_t>(cursor_);
  const auto found = std::find(from, recorded_.end(), static_cast<std::uint32_t>(unit));
  if (found != recorded_.end()) cursor_ = static_cast<std::size_t>(found - recorded_.begin()) + 1;
}

void Schedule::end_round() {
  std::swap(recorded_, current_);
  current_.clear();
  cursor_ = 0;
}

std::size_t Schedule::distance(std::size_t unit) const {
  const auto from = recorded_.begin() + static_cast<std::ptrdiff_t>(cursor_);
  const auto found = std::find(from, recorded_.end(), static_cast<std::uint32_t>(unit));
  return found == recorded_.end() ? never : static_cast<std::size_t>(found - from);
}

}  // namespace strata::engine
