// How the values of options are read and printed: each setter keeps what is legal, and each print is read back by it.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "engine/options/table.h"

namespace strata::detail {

inline constexpr std::string_view automatic = "auto";

template <typename Integer>
std::optional<Integer> read_integer(std::string_view text, Integer least, Integer most) {
  Integer value{};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc() || read.ptr != end || value < least || value > most) return std::nullopt;
  return value;
}

// A whole number from `least` to `most`, or "auto" for what the engine chooses.
Verdict set_count(std::optional<std::uint32_t>& field, std::string_view text, std::uint32_t least, std::uint32_t most);
std::string print_count(const std::optional<std::uint32_t>& field);

// A size as parse_bytes() reads it; the second form takes "auto" too.
Verdict set_size(std::uint64_t& field_bytes, std::string_view text);
Verdict set_size_or_auto(std::optional<std::uint64_t>& field_bytes, std::string_view text);
std::string print_size_or_auto(const std::optional<std::uint64_t>& field_bytes);

// Seconds, or a number with ms, s, min or h.
Verdict set_wait(double& field_s, std::string_view text);
std::string print_wait(double seconds);

template <typename Enum>
struct Choice {
  std::string_view name;
  Enum value;
};

template <typename Enum, std::size_t count>
Verdict set_choice(Enum& field, std::string_view text, const std::array<Choice<Enum>, count>& choices) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.name != text) continue;
    field = choice.value;
    return Verdict::legal;
  }
  return Verdict::illegal;
}

template <typename Enum, std::size_t count>
std::string print_choice(Enum field, const std::array<Choice<Enum>, count>& choices) {
  for (const Choice<Enum>& choice : choices) {
    if (choice.value == field) return std::string(choice.name);
  }
  return fmt::format("value {}", static_cast<int>(field));
}

}  // namespace strata::detail
