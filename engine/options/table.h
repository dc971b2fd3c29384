// The one table that flags, environment, configuration file, help and error texts are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <strata/options.h>

namespace strata::detail {

enum class Verdict : std::uint8_t { legal, illegal, not_built };

// What a value may be in JSON.
enum class JsonForm : std::uint8_t {
  number,          // 2
  number_or_auto,  // 2, "auto"
  number_or_text,  // 536870912, "512MiB"
  text,            // "bf16"
  boolean,         // true
  flag_only,       // not in a file
};

enum class Agreement : std::uint8_t { rank, world };  // whether all ranks must have the same value

struct OptionDescriptor {
  std::string_view name;     // "device-memory"; the flag is --strata-device-memory
  std::string_view operand;  // "SIZE"; empty: a switch, which takes no word after it
  std::string_view meaning;
  std::string_view legal;
  JsonForm json;
  Agreement agreement;
  Verdict (*set)(Options& options, std::string_view value);  // does nothing unless legal
  std::string (*print)(const Options& options);              // what `set` reads
};

std::span<const OptionDescriptor> option_table();
const OptionDescriptor* find_option(std::string_view name);  // null: there is none

inline constexpr std::string_view flag_prefix = "--strata-";
inline constexpr std::string_view config_name = "config";

std::string flag_of(std::string_view name);  // "--strata-stage"

}  // namespace strata::detail
