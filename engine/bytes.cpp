#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata {
namespace {

constexpr std::uint64_t bytes_max = std::uint64_t{1} << 63;
constexpr std::array<std::string_view, 7> binary_units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

struct SizeUnit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t kb = 1000;
constexpr std::array<SizeUnit, 14> size_units = {{{"", 1},
                                                  {"B", 1},
                                                  {"K", kib},
                                                  {"KiB", kib},
                                                  {"KB", kb},
                                                  {"M", kib* kib},
                                                  {"MiB", kib* kib},
                                                  {"MB", kb* kb},
                                                  {"G", kib* kib* kib},
                                                  {"GiB", kib* kib* kib},
                                                  {"GB", kb* kb* kb},
                                                  {"T", kib* kib* kib* kib},
                                                  {"TiB", kib* kib* kib* kib},
                                                  {"TB", kb* kb* kb* kb}}};

[[noreturn]] void refuse(std::string_view text) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("\"{}\" is not a size: write bytes as 4096, 512MiB, 1.5GiB or 8G (K, M, G, T are powers of "
                          "1024; KB, MB, GB, TB powers of 1000), at most 2^63",
                          text.substr(0, 64)));
}

// Digits of the integer and of the decimal part, and what follows them.
struct SizeText {
  std::string_view whole;
  std::string_view decimals;
  std::string_view unit;
};

std::string_view take_digits(std::string_view& rest) {
  std::size_t count = 0;
  while (count < rest.size() && rest[count] >= '0' && rest[count] <= '9') ++count;
  const std::string_view digits = rest.substr(0, count);
  rest.remove_prefix(count);
  return digits;
}

SizeText split(std::string_view text) {
  SizeText parts;
  std::string_view rest = text;
  parts.whole = take_digits(rest);
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    parts.decimals = take_digits(rest);
    if (parts.decimals.empty()) refuse(text);
  }
  if (parts.whole.empty()) refuse(text);
  if (rest.starts_with(' ') && rest.size() > 1) rest.remove_prefix(1);
  parts.unit = rest;
  return parts;
}

const SizeUnit* find_unit(std::string_view name) {
  for (const SizeUnit& unit : size_units) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  // Half a digit early: 1023.6 KiB would be printed as 1024 KiB.
  while (unit + 1 < binary_units.size() && value >= (unit == 0 ? 1024 : 1023.5)) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string digits = fmt::format("{:.{}f}", value, unit == 0 ? 0 : decimals);
  if (digits.find('.') != std::string::npos) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return fmt::format("{} {}", digits, binary_units[unit]);
}

std::uint64_t parse_bytes(std::string_view text) {
  const SizeText parts = split(text);
  const SizeUnit* unit = find_unit(parts.unit);
  if (unit == nullptr || (unit->bytes == 1 && !parts.decimals.empty())) refuse(text);

  std::uint64_t whole = 0;
  const auto read = std::from_chars(parts.whole.data(), parts.whole.data() + parts.whole.size(), whole);
  if (read.ec != std::errc() || whole > bytes_max / unit->bytes) refuse(text);

  // Long division by powers of ten, so that no digit is lost to a double.
  std::uint64_t fraction = 0;
  for (std::size_t i = parts.decimals.size(); i > 0; --i) {
    fraction = (fraction + static_cast<std::uint64_t>(parts.decimals[i - 1] - '0') * unit->bytes) / 10;
  }
  const std::uint64_t total = whole * unit->bytes + fraction;
  if (total > bytes_max) refuse(text);
  return total;
}

}  // namespace strata
