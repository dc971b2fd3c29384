// What the command line, the environment and a configuration file say, before it is judged.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/options/table.h"

namespace strata::detail {

struct Setting {
  const OptionDescriptor* option = nullptr;
  std::string value;
  std::string origin;  // "as a flag", "in STRATA_OPTIONS", "in job.json:3:5"
};

// Settings of argv[1..], up to "--"; every other argument goes into `rest`, in order.
std::vector<Setting> settings_of_flags(int argc, char** argv, std::vector<char*>& rest);

// Settings of white-space separated flags, with or without "--strata-".
std::vector<Setting> settings_of_environment(std::string_view text);

// Settings of the JSON object in the file. Keys are option names; each may stand once.
std::vector<Setting> settings_of_config(const std::string& path);

// Throws invalid_argument: `asked` (as it was written) is no option; the nearest one is named.
[[noreturn]] void refuse_unknown(std::string_view asked, std::string_view origin);

// Throws invalid_argument with option, value, what is legal and where it was given.
[[noreturn]] void refuse_value(const OptionDescriptor& option, std::string_view value, std::string_view origin);

// "text", clipped and with everything escaped that could upset a terminal.
std::string shown(std::string_view text);

}  // namespace strata::detail
