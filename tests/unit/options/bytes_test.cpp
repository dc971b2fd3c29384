#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <strata/bytes.h>
#include <strata/error.h>

namespace strata {
namespace {

TEST(ParseBytes, ReadsWhatPeopleWrite) {
  const std::vector<std::pair<std::string, std::uint64_t>> cases = {
      {"0", 0},
      {"4096", 4096},
      {"17 B", 17},
      {"1K", 1024},
      {"1KiB", 1024},
      {"1KB", 1000},
      {"512MiB", 512ULL << 20},
      {"512 MiB", 512ULL << 20},
      {"3MB", 3'000'000},
      {"1.5 GiB", 3ULL << 29},
      {"8G", 8ULL << 30},
      {"2GB", 2'000'000'000},
      {"2TiB", 2ULL << 40},
      {"1TB", 1'000'000'000'000},
      {"0.1KiB", 102},
      {"0.999999999999999999999999KB", 999},
      {"9223372036854775808", 1ULL << 63},
  };
  for (const auto& [text, bytes] : cases) EXPECT_EQ(parse_bytes(text), bytes) << text;
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const std::string text : {"",
                                 " ",
                                 "-1",
                                 "+1",
                                 "1.5",
                                 "1.5B",
                                 "1.",
                                 ".5G",
                                 "1e3",
                                 "nan",
                                 "inf",
                                 "0x10",
                                 "12 parsecs",
                                 "1mib",
                                 "1 KiB ",
                                 " 1",
                                 "1  K",
                                 "9223372036854775809",
                                 "18446744073709551616",
                                 "9007199254740993T",
                                 "1,5G",
                                 "MiB"}) {
    try {
      parse_bytes(text);
      ADD_FAILURE() << "accepted \"" << text << '"';
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(std::string(error.what()).find('"' + text + '"'), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("512MiB"), std::string::npos) << error.what();
    }
  }
}

TEST(FormatBytes, UsesTheLargestUnitAndThreeDigits) {
  const std::vector<std::pair<std::uint64_t, std::string>> cases = {
      {0, "0 B"},
      {17, "17 B"},
      {1023, "1023 B"},
      {1024, "1 KiB"},
      {1536, "1.5 KiB"},
      {10'000, "9.77 KiB"},
      {100'000, "97.7 KiB"},
      {1'000'000, "977 KiB"},
      {(1ULL << 20) - 1, "1 MiB"},
      {512ULL << 20, "512 MiB"},
      {3ULL << 29, "1.5 GiB"},
      {1'000'000'000'000, "931 GiB"},
      {1ULL << 63, "8 EiB"},
      {~0ULL, "16 EiB"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(format_bytes(bytes), text) << bytes;
}

TEST(FormatBytes, ReadsBackWithinItsDigits) {
  for (std::uint64_t bytes = 1; bytes < (1ULL << 42); bytes += 1 + bytes / 3) {
    const auto back = static_cast<double>(parse_bytes(format_bytes(bytes)));
    EXPECT_NEAR(back, static_cast<double>(bytes), 0.0051 * static_cast<double>(bytes) + 1) << bytes;
  }
}

}  // namespace
}  // namespace strata
