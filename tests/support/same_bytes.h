// Bytes to store, and to compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

#include <gtest/gtest.h>

#include <strata/error.h>

namespace strata::test {

// REQUIRES a size that is a multiple of 8.
inline void fill_random(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
}

inline bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

// What an act throws; fails the test when it throws nothing.
template <typename F>
Error error_of(F&& act) {
  try {
    act();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::ended, "nothing");
}

}  // namespace strata::test
