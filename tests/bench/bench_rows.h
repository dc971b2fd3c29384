// What every benchmark program shares: rows, their table and JSON, and a measurement held against its limit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::bench {

// `ratio` 1 = the limit, greater is better; for seconds that is limit / value, for rates value / limit.
struct Row {
  std::string name;  // "update/adamw/main"
  double value = 0;
  std::string unit;  // of value and limit: "s", "ms", "GB/s"
  double limit = 0;
  double ratio = 0;
};

// The rows of one program, printed as they come. Options, taken out of argv: `--json FILE` writes them as an array of
// {"name", "value", "unit", "limit", "ratio"}; `--only TEXT` is for the program to leave out rows without TEXT in the
// name.
class Report {
 public:
  Report(int& argc, char** argv);  // throws std::invalid_argument for an option without its value

  bool wants(std::string_view name) const { return name.find(only_) != std::string_view::npos; }
  void add(const Row& row, std::string_view remark = "");
  void finish() const;  // writes the file; throws std::runtime_error when it cannot

 private:
  std::string json_path_;
  std::string only_;
  std::vector<Row> rows_;
};

double median(std::vector<double> values);         // REQUIRES at least one
double timed_s(const std::function<void()>& act);  // wall-clock seconds of one call

// A measurement and its ruler in turn: ruler, measurement, ruler, ..., ruler, so that each measurement is held against
// the rulers just before and just after it. One round of both is run first and not counted.
struct Paired {
  double value_s = 0;  // median of the measurements
  double limit_s = 0;  // median of the rulers
  double ratio = 0;    // median over the pairs of ruler / measurement
};
Paired measure_pairs(const std::function<void()>& measurement, const std::function<void()>& ruler,
                     std::size_t pair_count = 9);

// The same for acts that take their own time, in seconds.
Paired measure_timed_pairs(const std::function<double()>& measurement_s, const std::function<double()>& ruler_s,
                           std::size_t pair_count = 9);

}  // namespace strata::bench
