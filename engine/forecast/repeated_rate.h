// The rate of something that is done again and again for a moment.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace strata::engine {

// REQUIRES values.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Bytes over the median time of one go; `act` moves `bytes`. Repeats it for `moment_s`, at least three times.
template <typename Act>
double repeated_rate(double bytes, double moment_s, const Act& act) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t least_count = 3;
  std::vector<double> times_s;
  const Clock::time_point start = Clock::now();
  Clock::time_point before = start;
  while (times_s.size() < least_count || std::chrono::duration<double>(before - start).count() < moment_s) {
    act();
    const Clock::time_point now = Clock::now();
    times_s.push_back(std::chrono::duration<double>(now - before).count());
    before = now;
  }
  const double middle_s = median(std::move(times_s));
  return middle_s > 0 ? bytes / middle_s : 0;
}

}  // namespace strata::engine
