#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/options/nearest.h"
#include "engine/options/table.h"
#include "unit/options/parsed.h"

namespace strata {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Environment;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using testing::parse;
using testing::refusal;

std::vector<std::string> option_names() {
  std::vector<std::string> names;
  for (const auto& option : detail::option_table()) names.emplace_back(option.name);
  return names;
}

bool exists(const std::string& name) { return detail::find_option(name) != nullptr; }

// Every text one slip away: a letter missing, one too many, another one, two swapped.
std::vector<std::string> typos_of(const std::string& name) {
  std::vector<std::string> typos;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    typos.push_back(name.substr(0, i) + "q" + name.substr(i));
    if (i == name.size()) break;
    typos.push_back(name.substr(0, i) + name.substr(i + 1));
    typos.push_back(name.substr(0, i) + "q" + name.substr(i + 1));
    if (i + 1 < name.size() && name[i] != name[i + 1]) {
      std::string swapped = name;
      std::swap(swapped[i], swapped[i + 1]);
      typos.push_back(swapped);
    }
  }
  return typos;
}

// That the name stands there whole, not as the beginning of a longer one.
bool names_flag(const std::string& text, const std::string& flag) {
  for (std::size_t at = text.find(flag); at != std::string::npos; at = text.find(flag, at + 1)) {
    const char next = at + flag.size() < text.size() ? text[at + flag.size()] : ' ';
    if (next != '-' && (next < 'a' || next > 'z')) return true;
  }
  return false;
}

TEST(Spelling, EveryOneLetterTypoOfEveryFlagIsRefusedWithTheRightName) {
  std::size_t tried = 0;
  for (const std::string& name : option_names()) {
    const std::string flag = detail::flag_of(name);
    for (const std::string& typo : typos_of(name)) {
      if (exists(typo)) continue;
      for (const std::vector<std::string>& words :
           {std::vector<std::string>{"--strata-" + typo + "=1"}, {"--strata-" + typo, "1"}}) {
        EXPECT_TRUE(names_flag(refusal(words), flag)) << typo << ": " << refusal(words);
        ++tried;
      }
    }
  }
  EXPECT_GT(tried, 500U);
}

TEST(Spelling, ASlipInThePrefixDoesNotHandTheOptionToTheProgram) {
  for (const std::string& name : option_names()) {
    const std::string flag = detail::flag_of(name);
    for (std::size_t i = 0; i < detail::flag_prefix.size(); ++i) {
      const std::string typo = flag.substr(0, i) + flag.substr(i + 1);
      EXPECT_TRUE(names_flag(refusal({typo + "=1"}), flag)) << typo << ": " << refusal({typo + "=1"});
    }
  }
}

TEST(Spelling, NoAdviceWhereNothingIsNear) {
  EXPECT_THAT(refusal({"--strata-foo"}), ::testing::Not(HasSubstr("nearest")));
}

TEST(Spelling, ProgramsKeepFlagsThatOnlyLookAlike) {
  const std::vector<std::string> words = {"--stage=2",    "--device", "--threads=2", "-t", "--trace-stage",
                                          "strata-stage", "-"};
  EXPECT_EQ(parse(words).rest, words);
}

TEST(Spelling, EveryTypoInTheEnvironmentIsRefused) {
  for (const std::string& name : option_names()) {
    for (const std::string& typo : typos_of(name)) {
      if (exists(typo)) continue;
      const Environment environment(typo + "=1");
      const std::string text = refusal({});
      EXPECT_TRUE(names_flag(text, detail::flag_of(name))) << typo << ": " << text;
      EXPECT_THAT(text, HasSubstr("in STRATA_OPTIONS"));
    }
  }
}

TEST(Spelling, EveryTypoOfAKeyIsRefused) {
  const std::string path = testing::own_path("typo");
  for (const std::string& name : option_names()) {
    for (const std::string& typo : typos_of(name)) {
      if (exists(typo)) continue;
      testing::write_new(path, "{\n  \"" + typo + "\": 1}");
      const std::string text = refusal({"--strata-config", path});
      EXPECT_TRUE(names_flag(text, detail::flag_of(name))) << typo << ": " << text;
      EXPECT_THAT(text, AllOf(HasSubstr('"' + typo + '"'), HasSubstr(path + ":2:3")));
    }
  }
  std::filesystem::remove(path);
}

TEST(Spelling, KeyWithPrefixOrUnderscoreLeadsToTheName) {
  const std::string path = testing::own_path("prefix");
  for (const char* key : {"--strata-device-memory", "strata-device-memory", "device_memory", "--device-memory"}) {
    testing::write_new(path, "{\"" + std::string(key) + "\": 1}");
    EXPECT_THAT(refusal({"--strata-config", path}), HasSubstr("the nearest is --strata-device-memory;"));
  }
  std::filesystem::remove(path);
}

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(detail::edit_distance("", ""), 0U);
  EXPECT_EQ(detail::edit_distance("", "abc"), 3U);
  EXPECT_EQ(detail::edit_distance("stage", "stage"), 0U);
  EXPECT_EQ(detail::edit_distance("stage", "stge"), 1U);
  EXPECT_EQ(detail::edit_distance("stage", "satge"), 1U);
  EXPECT_EQ(detail::edit_distance("stage", "stages"), 1U);
  EXPECT_EQ(detail::edit_distance("kitten", "sitting"), 3U);
}

TEST(NearestNames, NamesAllThatAreEquallyNear) {
  EXPECT_THAT(detail::nearest_names("cat", {"bat", "rat", "dog"}), ElementsAre("bat", "rat"));
  EXPECT_THAT(detail::nearest_names("zzzz", {"bat", "dog"}), IsEmpty());
  EXPECT_THAT(detail::nearest_names(std::string(100000, 'x'), {"bat"}), IsEmpty());
}

}  // namespace
}  // namespace strata
