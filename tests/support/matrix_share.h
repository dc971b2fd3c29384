// Which part of a large matrix of cases this run takes: all, or with STRATA_TEST_SHARE=8 an eighth, chosen by a hash
// of the case's name and STRATA_TEST_SEED, so that over several runs every case has its turn.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace strata::test {

inline bool in_matrix_share(const std::string& name) {
  const char* share = std::getenv("STRATA_TEST_SHARE");
  const char* seed = std::getenv("STRATA_TEST_SEED");
  const unsigned long parts = share == nullptr ? 1 : std::strtoul(share, nullptr, 10);
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char letter : name + (seed == nullptr ? "" : seed)) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ull;
  }
  return parts < 2 || (hash >> 32) % parts == 0;
}

// Fixture of a matrix.
template <typename Parameters>
class SharedMatrix : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override {
    if (!in_matrix_share(testing::UnitTest::GetInstance()->current_test_info()->name())) {
      GTEST_SKIP() << "in another run's share of the matrix (STRATA_TEST_SHARE)";
    }
  }
};

}  // namespace strata::test
