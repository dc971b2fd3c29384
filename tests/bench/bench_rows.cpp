#include "bench/bench_rows.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace strata::bench {

Report::Report(int& argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument != "--json" && argument != "--only") {
      argv[kept++] = argv[i];
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument(fmt::format("{} needs a value", argument));
    (argument == "--json" ? json_path_ : only_) = argv[++i];
  }
  argc = kept;
}

void Report::add(const Row& row, std::string_view remark) {
  if (rows_.empty()) fmt::print("{:<36} {:>12} {:>12} {:<6} {:>7}\n", "name", "value", "limit", "unit", "ratio");
  rows_.push_back(row);
  fmt::print("{:<36} {:>12.5g} {:>12.5g} {:<6} {:>7.3f}  {}\n", row.name, row.value, row.limit, row.unit, row.ratio,
             remark);
  std::fflush(stdout);
}

void Report::finish() const {
  if (json_path_.empty()) return;
  nlohmann::json array = nlohmann::json::array();
  for (const Row& row : rows_) {
    array.push_back(
        {{"name", row.name}, {"value", row.value}, {"unit", row.unit}, {"limit", row.limit}, {"ratio", row.ratio}});
  }
  std::ofstream file(json_path_);
  file << array.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error(fmt::format("cannot write '{}'", json_path_));
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double timed_s(const std::function<void()>& act) {
  const auto begin = std::chrono::steady_clock::now();
  act();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Paired measure_pairs(const std::function<void()>& measurement, const std::function<void()>& ruler,
                     std::size_t pair_count) {
  return measure_timed_pairs([&] { return timed_s(measurement); }, [&] { return timed_s(ruler); }, pair_count);
}

Paired measure_timed_pairs(const std::function<double()>& measurement_s, const std::function<double()>& ruler_s,
                           std::size_t pair_count) {
  ruler_s();
  measurement_s();
  std::vector<double> rulers{ruler_s()}, values, ratios;
  for (std::size_t i = 0; i < pair_count; ++i) {
    values.push_back(measurement_s());
    rulers.push_back(ruler_s());
    ratios.push_back((rulers[i] + rulers[i + 1]) / 2 / values[i]);
  }
  return {median(values), median(rulers), median(ratios)};
}

}  // namespace strata::bench
