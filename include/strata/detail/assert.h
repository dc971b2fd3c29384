// Assertions for bugs, on in every build: prints expression, file and line, and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace strata::detail {

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "strata: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace strata::detail

#define STRATA_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::strata::detail::assertion_failed(#expression, __FILE__, __LINE__))
