#include "engine/options/values.h"

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata::detail {
namespace {

constexpr double wait_min_s = 0.01;
constexpr double wait_max_s = 1e6;

struct WaitUnit {
  std::string_view name;
  double seconds;
};
constexpr std::array<WaitUnit, 5> wait_units = {{{"", 1}, {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}}};

}  // namespace

Verdict set_count(std::optional<std::uint32_t>& field, std::string_view text, std::uint32_t least, std::uint32_t most) {
  if (text == automatic) {
    field.reset();
    return Verdict::legal;
  }
  const auto value = read_integer<std::uint32_t>(text, least, most);
  if (!value) return Verdict::illegal;
  field = *value;
  return Verdict::legal;
}

std::string print_count(const std::optional<std::uint32_t>& field) {
  return field ? std::to_string(*field) : std::string(automatic);
}

Verdict set_size(std::uint64_t& field_bytes, std::string_view text) {
  try {
    field_bytes = parse_bytes(text);
  } catch (const Error&) {
    return Verdict::illegal;
  }
  return Verdict::legal;
}

Verdict set_size_or_auto(std::optional<std::uint64_t>& field_bytes, std::string_view text) {
  if (text == automatic) {
    field_bytes.reset();
    return Verdict::legal;
  }
  std::uint64_t bytes = 0;
  const Verdict verdict = set_size(bytes, text);
  if (verdict == Verdict::legal) field_bytes = bytes;
  return verdict;
}

std::string print_size_or_auto(const std::optional<std::uint64_t>& field_bytes) {
  return field_bytes ? std::to_string(*field_bytes) : std::string(automatic);
}

Verdict set_wait(double& field_s, std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc()) return Verdict::illegal;
  const std::string_view unit_name(read.ptr, static_cast<std::size_t>(end - read.ptr));
  for (const WaitUnit& unit : wait_units) {
    const double seconds = number * unit.seconds;
    if (unit.name != unit_name || !(seconds >= wait_min_s && seconds <= wait_max_s)) continue;
    field_s = seconds;
    return Verdict::legal;
  }
  return Verdict::illegal;
}

std::string print_wait(double seconds) { return fmt::format("{}s", seconds); }

}  // namespace strata::detail
