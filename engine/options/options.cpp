#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <strata/error.h>
#include <strata/options.h>

#include "engine/options/combinations.h"
#include "engine/options/digest.h"
#include "engine/options/sources.h"
#include "engine/options/table.h"

namespace strata {
namespace {

using detail::OptionDescriptor;
using detail::Setting;
using detail::Verdict;

void apply(Options& options, const Setting& setting) {
  switch (setting.option->set(options, setting.value)) {
    case Verdict::legal: return;
    case Verdict::illegal: detail::refuse_value(*setting.option, setting.value, setting.origin);
    case Verdict::not_built:
      throw Error(ErrorCode::unsupported,
                  fmt::format("option {} cannot be {} (given {}); legal: {}", detail::flag_of(setting.option->name),
                              detail::shown(setting.value), setting.origin, setting.option->legal));
  }
}

// What a setting means, so that "512MiB" and "536870912" are no contradiction.
std::string meaning_of(const Setting& setting) {
  if (setting.option->name == detail::config_name) return setting.value;
  Options options;
  apply(options, setting);
  return setting.option->print(options);
}

void refuse_contradictions(const std::vector<Setting>& settings) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    for (std::size_t j = i + 1; j < settings.size(); ++j) {
      if (settings[i].option != settings[j].option || meaning_of(settings[i]) == meaning_of(settings[j])) continue;
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("option {} is {} and {} (both given {}); give it once", detail::flag_of(settings[i].option->name),
                      detail::shown(settings[i].value), detail::shown(settings[j].value), settings[i].origin));
    }
  }
}

std::string config_path(const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    if (setting.option->name == detail::config_name) return setting.value;
  }
  return {};
}

void apply_all(Options& options, const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) apply(options, setting);
}

}  // namespace

Options parse_options(int& argc, char** argv) {
  std::vector<char*> rest;
  const std::vector<Setting> flags = detail::settings_of_flags(argc, argv, rest);
  const char* environment_text = std::getenv("STRATA_OPTIONS");
  const std::vector<Setting> environment =
      detail::settings_of_environment(environment_text == nullptr ? "" : environment_text);
  refuse_contradictions(flags);
  refuse_contradictions(environment);

  // Everything given is judged, also what a stronger source overrides.
  Options options;
  const std::string flag_path = config_path(flags);
  const std::string path = flag_path.empty() ? config_path(environment) : flag_path;
  if (!path.empty()) apply_all(options, detail::settings_of_config(path));
  apply_all(options, environment);
  apply_all(options, flags);
  validate(options);

  if (argc > 0) {
    std::copy(rest.begin(), rest.end(), argv + 1);
    argc = 1 + static_cast<int>(rest.size());
    argv[argc] = nullptr;
  }
  return options;
}

std::string options_help() {
  std::string text =
      "Options of the memory engine. Each has one name: as a flag, --strata-NAME VALUE or --strata-NAME=VALUE; in the\n"
      "environment variable STRATA_OPTIONS, \"NAME=VALUE NAME=VALUE\"; as a key of the JSON object in the file that\n"
      "--strata-config names. A flag wins over the environment, the environment over the file.\n\n";
  const Options defaults;
  for (const OptionDescriptor& option : detail::option_table()) {
    const std::string flag =
        detail::flag_of(option.name) + (option.operand.empty() ? "" : " ") + std::string(option.operand);
    text += fmt::format("  {:<29} {}\n  {:<29} {}; default {}\n", flag, option.meaning, "", option.legal,
                        option.print(defaults));
  }
  return text;
}

void validate(const Options& options) {
  // The setters hold the bounds: what prints as something that they refuse is out of bounds.
  for (const OptionDescriptor& option : detail::option_table()) {
    Options probe;
    apply(probe, {&option, option.print(options), "in the program"});
  }
  detail::refuse_illegal_combinations(options);
}

namespace detail {

std::string engine_settings_digest_text(const Options& options) {
  std::string text;
  for (const OptionDescriptor& option : option_table()) {
    if (option.agreement == Agreement::world) text += fmt::format("{}={}\n", option.name, option.print(options));
  }
  return text;
}

}  // namespace detail
}  // namespace strata
