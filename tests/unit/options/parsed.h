// Runs parse_options on words as a program would get them.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <strata/error.h>
#include <strata/options.h>

namespace strata::testing {

struct Parsed {
  Options options;
  std::vector<std::string> rest;  // what is left for the program
};

inline Parsed parse(std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int argc = static_cast<int>(words.size());
  Parsed parsed;
  parsed.options = parse_options(argc, argv.data());
  EXPECT_EQ(argv[static_cast<std::size_t>(argc)], nullptr);
  parsed.rest.assign(argv.begin() + 1, argv.begin() + argc);
  return parsed;
}

// The text of the error that parsing throws; "" and a failure when it throws none of that code.
inline std::string refusal(const std::vector<std::string>& words, ErrorCode code = ErrorCode::invalid_argument) {
  try {
    parse(words);
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// A path that no other process uses.
inline std::string own_path(const std::string& name) {
  return fmt::format("{}/strata_{}_{}.json", ::testing::TempDir(), ::getpid(), name);
}

// A new file each time: some file systems flush a file that is cut to nothing and written again.
inline void write_new(const std::string& path, const std::string& text) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << text;
}

// STRATA_OPTIONS for one test.
class Environment {
 public:
  explicit Environment(const std::string& text) { ::setenv("STRATA_OPTIONS", text.c_str(), 1); }
  ~Environment() { ::unsetenv("STRATA_OPTIONS"); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

}  // namespace strata::testing
