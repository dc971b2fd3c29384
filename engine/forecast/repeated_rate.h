// The rate of something that is done again and again for a moment.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace strata::engine {

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
  const auto middle = times_s.begin() + static_cast<std::ptrdiff_t>(times_s.size() / 2);
  std::nth_element(times_s.begin(), middle, times_s.end());
  return *middle > 0 ? bytes / *middle : 0;
}

}  // namespace strata::engine
