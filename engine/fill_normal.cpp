// Normal values by inverting the distribution function: Acklam's rational approximation (relative error 1.15e-9) of a
// uniform value made from the element's identity. Only the tails need a logarithm.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cmath>
#include <cstdint>

#include <strata/engine.h>

namespace strata {
namespace {

constexpr double tail_start = 0.02425;

double central(double p) {
  const double q = p - 0.5;
  const double r = q * q;
  const double above = ((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
                         1.383577518672690e+02) *
                            r -
                        3.066479806614716e+01) *
                           r +
                       2.506628277459239e+00;
  const double below = ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
                         6.680131188771972e+01) *
                            r -
                        1.328068155288572e+01) *
                           r +
                       1.0;
  return above * q / below;
}

double lower_tail(double p) {
  const double q = std::sqrt(-2.0 * std::log(p));
  const double above = ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
                         2.549732539343734e+00) *
                            q +
                        4.374664141464968e+00) *
                           q +
                       2.938163982698783e+00;
  const double below =
      (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q + 3.754408661907416e+00) *
          q +
      1.0;
  return above / below;
}

double normal_of(double p) {
  if (p < tail_start) return lower_tail(p);
  if (p > 1.0 - tail_start) return -lower_tail(1.0 - p);
  return central(p);
}

// splitmix64, one value for each counter.
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace

void fill_normal(std::span<float> values, std::uint64_t seed, std::string_view name, std::size_t first,
                 float deviation) {
  const std::uint64_t key = XXH3_64bits_withSeed(name.data(), name.size(), seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = scramble(key + (first + i + 1) * 0x9E3779B97F4A7C15ull);
    const double uniform = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;  // in (0, 1), never either
    values[i] = static_cast<float>(normal_of(uniform)) * deviation;
  }
}

}  // namespace strata
