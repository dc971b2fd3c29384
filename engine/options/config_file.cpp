#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include <strata/error.h>

#include "engine/options/sources.h"

namespace strata::detail {
namespace {

using Json = nlohmann::json;

constexpr std::uintmax_t config_bytes_max = 1U << 20;

// Counts what the parser has read, so that every event has its place in the text.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* read_count) : at_(at), read_count_(read_count) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*read_count_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* read_count_;
};

std::string_view json_form_text(JsonForm form) {
  switch (form) {
    case JsonForm::number: return "a JSON number";
    case JsonForm::number_or_auto: return "a JSON number or \"auto\"";
    case JsonForm::number_or_text: return "a JSON number or string";
    case JsonForm::text: return "a JSON string";
    case JsonForm::boolean: return "true or false";
    case JsonForm::flag_only: break;
  }
  return "a flag, not part of a file";
}

// Takes the parser's events one by one; nothing nested is ever kept, so depth costs nothing.
class ConfigReader : public Json::json_sax_t {
 public:
  ConfigReader(std::string path, std::string_view text) : path_(std::move(path)), text_(text) {}

  std::size_t* read_count() { return &read_count_; }
  std::vector<Setting> take_settings() { return std::move(settings_); }

  bool null() override { return refuse_type("null"); }
  bool boolean(bool value) override {
    return option_ != nullptr && option_->json == JsonForm::boolean ? keep(value ? "true" : "false")
                                                                    : refuse_type("a boolean");
  }
  bool number_integer(number_integer_t value) override { return number(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return number(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& as_written) override { return number(as_written); }
  bool string(string_t& value) override {
    const bool fits =
        option_ != nullptr && (option_->json == JsonForm::text || option_->json == JsonForm::number_or_text ||
                               (option_->json == JsonForm::number_or_auto && value == "auto"));
    return fits ? keep(value) : refuse_type("the string " + shown(value));
  }
  bool binary(binary_t&) override { return refuse_type("binary"); }
  bool start_object(std::size_t) override {
    if (inside_) return refuse_type("an object");
    inside_ = true;
    return true;
  }
  bool start_array(std::size_t) override { return refuse_type("an array"); }
  bool end_object() override { return true; }
  bool end_array() override { return true; }

  bool key(string_t& name) override {
    key_place_ = place_of(start_of_string(read_count_));
    option_ = find_option(name);
    if (option_ == nullptr) refuse_unknown(name, "as a key in " + key_place_);
    if (option_->json == JsonForm::flag_only)
      fail(fmt::format("key {} is {}", shown(name), json_form_text(option_->json)));
    for (const Setting& earlier : settings_) {
      if (earlier.option == option_) fail(fmt::format("key {} stands there a second time", shown(name)));
    }
    return true;
  }

  [[noreturn]] bool parse_error(std::size_t position, const std::string& last_token,
                                const Json::exception& error) override {
    key_place_ = place_of(position > 0 ? position - 1 : 0);
    const std::string_view why = error.id == 406 ? "a number too large" : "not valid JSON";
    const std::string key = option_ == nullptr ? "" : fmt::format(", after key \"{}\"", option_->name);
    fail(fmt::format("{} at {}{}", why, last_token.empty() ? "the end of the file" : shown(last_token), key));
  }

 private:
  bool number(const std::string& as_written) {
    const bool fits =
        option_ != nullptr && (option_->json == JsonForm::number || option_->json == JsonForm::number_or_auto ||
                               option_->json == JsonForm::number_or_text);
    return fits ? keep(as_written) : refuse_type("the number " + as_written.substr(0, 64));
  }

  bool keep(std::string value) {
    settings_.push_back({option_, std::move(value), fmt::format("by key \"{}\" in {}", option_->name, key_place_)});
    return true;
  }

  [[noreturn]] bool refuse_type(const std::string& found) {
    if (option_ == nullptr) {
      key_place_ = place_of(text_.find_first_not_of(" \t\r\n"));
      fail(fmt::format("the file must be a JSON object of options, as {{\"stage\": 2}}, not {}", found));
    }
    fail(fmt::format("key \"{}\" (option {}) must be {}, not {}; legal: {}", option_->name, flag_of(option_->name),
                     json_form_text(option_->json), found, option_->legal));
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} (given by --strata-config)", key_place_, text));
  }

  // Of the opening quote of a string literal whose closing quote was just read.
  std::size_t start_of_string(std::size_t end) const {
    std::size_t at = end < 2 ? 0 : end - 2;
    const auto escaped = [&](std::size_t quote) {
      std::size_t backslashes = 0;
      while (backslashes < quote && text_[quote - 1 - backslashes] == '\\') ++backslashes;
      return backslashes % 2 == 1;
    };
    while (at > 0 && (text_[at] != '"' || escaped(at))) --at;
    return at;
  }

  std::string place_of(std::size_t offset) const {
    const std::string_view before = text_.substr(0, std::min(offset, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1;
    return fmt::format("{}:{}:{}", path_, line, column);
  }

  std::string path_;
  std::string_view text_;
  std::size_t read_count_ = 0;
  bool inside_ = false;
  const OptionDescriptor* option_ = nullptr;
  std::string key_place_;
  std::vector<Setting> settings_;
};

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, fmt::format("option --strata-config: {}: {}", shown(path), why));
}

std::string read_file(const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (failure) refuse_file(path, failure.message());
  if (!std::filesystem::is_regular_file(status)) refuse_file(path, "is not a regular file");
  const std::uintmax_t size = std::filesystem::file_size(path, failure);
  if (failure) refuse_file(path, failure.message());
  if (size > config_bytes_max) refuse_file(path, fmt::format("has {} bytes, of at most {}", size, config_bytes_max));
  std::string text(static_cast<std::size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) refuse_file(path, "cannot be read");
  return text;
}

}  // namespace

std::vector<Setting> settings_of_config(const std::string& path) {
  const std::string text = read_file(path);
  ConfigReader reader(path, text);
  const CountingIterator begin(text.data(), reader.read_count());
  const CountingIterator end(text.data() + text.size(), reader.read_count());
  Json::sax_parse(begin, end, &reader);
  return reader.take_settings();
}

}  // namespace strata::detail
