#include "engine/options/sources.h"

#include <fmt/format.h>

#include <utility>

#include <strata/error.h>

#include "engine/options/nearest.h"

namespace strata::detail {
namespace {

constexpr std::string_view flag_origin = "as a flag";
constexpr std::string_view environment_origin = "in STRATA_OPTIONS";
constexpr std::string_view flag_stem = "--strata";
constexpr std::size_t stem_typos_max = 2;

std::vector<std::string_view> option_names() {
  std::vector<std::string_view> names;
  for (const OptionDescriptor& option : option_table()) names.push_back(option.name);
  return names;
}

std::vector<std::string> flags_of(const std::vector<std::string_view>& names) {
  std::vector<std::string> flags;
  for (const std::string_view name : names) flags.push_back(flag_of(name));
  return flags;
}

std::vector<std::string> flags_near(std::string_view asked) {
  const std::vector<std::string> flags = flags_of(option_names());
  std::vector<std::string> near;
  for (const std::string_view flag : nearest_names(asked, {flags.begin(), flags.end()})) near.emplace_back(flag);
  return near;
}

// "--strat-stage": a slip in the part before the name must not hand the option to the program.
bool misspells_prefix(std::string_view argument) {
  const std::string_view asked = argument.substr(0, argument.find('='));
  if (!asked.starts_with('-') || asked.size() + stem_typos_max < flag_prefix.size()) return false;
  for (const std::string& flag : flags_near(asked)) {
    if (edit_distance(asked, flag) <= stem_typos_max) return true;
  }
  return false;
}

// The words of one source, taken from the front.
class Words {
 public:
  Words(std::vector<std::string_view> words, std::string_view origin) : words_(std::move(words)), origin_(origin) {}

  bool empty() const { return next_ == words_.size(); }
  std::string_view front() const { return words_[next_]; }
  void drop() { ++next_; }
  std::size_t taken_count() const { return next_; }

  // An option, with the value that stands behind "=" or in the following word. `word` is "stage" or "stage=2".
  Setting take(std::string_view word, std::string_view as_written) {
    const std::size_t equals = word.find('=');
    const OptionDescriptor* option = find_option(word.substr(0, equals));
    if (option == nullptr) refuse_unknown(as_written.substr(0, as_written.find('=')), origin_);
    drop();
    if (equals != std::string_view::npos) {
      return {option, std::string(word.substr(equals + 1)), std::string(origin_)};
    }
    if (option->operand.empty()) return {option, "on", std::string(origin_)};
    if (empty() || front().starts_with("--")) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("option {} needs a value: {} (given {})", flag_of(option->name), option->legal, origin_));
    }
    Setting setting{option, std::string(front()), std::string(origin_)};
    drop();
    return setting;
  }

 private:
  std::vector<std::string_view> words_;
  std::string_view origin_;
  std::size_t next_ = 0;
};

std::vector<std::string_view> split_at_space(std::string_view text) {
  constexpr std::string_view space = " \t\r\n\f\v";
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = text.find_first_not_of(space);
    if (begin == std::string_view::npos) return words;
    text.remove_prefix(begin);
    words.push_back(text.substr(0, text.find_first_of(space)));
    text.remove_prefix(words.back().size());
  }
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t shown_max = 64;
  std::string out = "\"";
  for (const char character : text.substr(0, shown_max)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7F) {
      out += character;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  out += text.size() > shown_max ? "...\"" : "\"";
  return out;
}

void refuse_unknown(std::string_view asked, std::string_view origin) {
  std::string_view bare = asked;
  for (const std::string_view prefix : {flag_prefix, std::string_view("strata-"), std::string_view("--")}) {
    if (!bare.starts_with(prefix)) continue;
    bare.remove_prefix(prefix.size());
    break;
  }
  // Compared in full where the slip may lie in the prefix.
  const bool whole_flag = asked.starts_with('-') && !asked.starts_with(flag_prefix);
  std::string advice;
  for (const std::string& flag : whole_flag ? flags_near(asked) : flags_of(nearest_names(bare, option_names()))) {
    advice += (advice.empty() ? "" : " or ") + flag;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("there is no option {} (given {}){}; --strata-help lists all", shown(asked), origin,
                          advice.empty() ? "" : "; the nearest is " + advice));
}

void refuse_value(const OptionDescriptor& option, std::string_view value, std::string_view origin) {
  throw Error(ErrorCode::invalid_argument, fmt::format("option {} cannot be {} (given {}); legal: {}",
                                                       flag_of(option.name), shown(value), origin, option.legal));
}

std::vector<Setting> settings_of_flags(int argc, char** argv, std::vector<char*>& rest) {
  std::vector<Setting> settings;
  char** const end = argv + argc;
  char** const begin = argc > 0 ? argv + 1 : end;
  Words words({begin, end}, flag_origin);
  while (!words.empty() && words.front() != "--") {
    const std::string_view argument = words.front();
    if (argument.starts_with(flag_prefix)) {
      settings.push_back(words.take(argument.substr(flag_prefix.size()), argument));
    } else if (argument.starts_with(flag_stem) || misspells_prefix(argument)) {
      refuse_unknown(argument.substr(0, argument.find('=')), flag_origin);
    } else {
      rest.push_back(begin[words.taken_count()]);
      words.drop();
    }
  }
  rest.insert(rest.end(), begin + words.taken_count(), end);
  return settings;
}

std::vector<Setting> settings_of_environment(std::string_view text) {
  std::vector<Setting> settings;
  Words words(split_at_space(text), environment_origin);
  while (!words.empty()) {
    const std::string_view word = words.front();
    const bool prefixed = word.starts_with(flag_prefix);
    settings.push_back(words.take(prefixed ? word.substr(flag_prefix.size()) : word, word));
  }
  return settings;
}

}  // namespace strata::detail
