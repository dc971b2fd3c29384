#include "engine/cli/model_sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <string>

#include <strata/error.h>

namespace strata::cli {
namespace {

constexpr std::uint64_t count_most = std::uint64_t{1} << 48;  // of a tensor
constexpr double forward_share = 1.0 / 3;                     // a backward pass is two forward ones

struct CountUnit {
  std::string_view name;
  double factor;
};
constexpr std::array<CountUnit, 6> count_units = {
    {{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}}};

Unit sketched_unit(std::string name, std::uint64_t element_count, const ModelSketch& sketch) {
  Unit unit;
  unit.name = std::move(name);
  unit.tensors.resize(1);
  unit.tensors[0].name = unit.name + ".weight";
  unit.tensors[0].shape = {static_cast<std::int64_t>(element_count)};
  const double share = static_cast<double>(element_count) / static_cast<double>(sketch.parameter_count);
  unit.forward_s = sketch.arithmetic_s * share * forward_share;
  unit.backward_s = sketch.arithmetic_s * share * (1 - forward_share);
  return unit;
}

class SketchedOptimizer final : public Optimizer {
 public:
  explicit SketchedOptimizer(std::uint32_t moment_count) : moment_count_(moment_count) {}
  std::string_view name() const override { return "sketched"; }
  std::span<const std::string_view> moment_names() const override {
    static constexpr std::array<std::string_view, moments_max> names = {"first moment", "second moment"};
    return std::span(names).first(moment_count_);
  }
  std::string settings() const override { return {}; }
  UpdateOutcome update(const UpdatePiece&, const UpdateStep&) const override {
    throw std::logic_error("a sketched optimizer has no arithmetic");
  }

 private:
  const std::uint32_t moment_count_;
};

}  // namespace

std::vector<Unit> sketched_units(const ModelSketch& sketch) {
  if (sketch.embedding_count + sketch.unit_count > sketch.parameter_count) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} parameters are too few for {} units and an embedding of {}", sketch.parameter_count,
                            sketch.unit_count, sketch.embedding_count));
  }
  std::vector<Unit> units;
  if (sketch.embedding_count > 0) units.push_back(sketched_unit("embedding", sketch.embedding_count, sketch));
  const std::uint64_t rest = sketch.parameter_count - sketch.embedding_count;
  for (std::uint32_t i = 0; i < sketch.unit_count; ++i) {
    const std::uint64_t count = rest / sketch.unit_count + (i < rest % sketch.unit_count ? 1 : 0);
    units.push_back(sketched_unit(fmt::format("unit.{}", i), count, sketch));
  }
  return units;
}

std::shared_ptr<const Optimizer> sketched_optimizer(std::uint32_t moment_count) {
  return std::make_shared<SketchedOptimizer>(moment_count);
}

std::optional<std::uint64_t> read_count(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (read.ec != std::errc()) return std::nullopt;
  const std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  const auto known = std::find_if(count_units.begin(), count_units.end(),
                                  [&](const CountUnit& candidate) { return candidate.name == unit; });
  if (known == count_units.end()) return std::nullopt;
  const double count = std::round(number * known->factor);
  const bool whole = known->factor > 1 || count == number;
  if (!whole || !(count >= 1 && count <= static_cast<double>(count_most))) return std::nullopt;
  return static_cast<std::uint64_t>(count);
}

}  // namespace strata::cli
