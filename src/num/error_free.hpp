#pragma once

#include <array>
#include <cstddef>

/// Error-free transformations: value + error is the exact result. Round to nearest, no contraction.
/// Source:    docs/theory.md T-02
namespace driftbound::num {

struct ErrorFree {
  double value;
  double error;
};

/// a + b = value + error, with |error| <= ulp(value)/2.
/// Domain:    any finite a, b; underflow is harmless; where a + b, or with it a - b, overflows the error is not finite
inline ErrorFree two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  const double a_part = sum - b_part;
  return {sum, (a - a_part) + (b - b_part)};
}

/// A value with the sign of the exact sum of the terms (0 if and only if that sum is 0).
/// Domain:    the sum of the magnitudes of the terms is below 2^1023
template <std::size_t count>
double sign_of_sum(const std::array<double, count>& terms) {
  // Shewchuk (1997), Grow-Expansion: after each term, parts[0..i] do not overlap and their sum is exact.
  std::array<double, count> parts{};
  for (std::size_t i = 0; i < count; ++i) {
    double carry = terms[i];
    for (std::size_t k = 0; k < i; ++k) {
      const ErrorFree sum = two_sum(carry, parts[k]);
      carry = sum.value;
      parts[k] = sum.error;
    }
    parts[i] = carry;
  }
  for (std::size_t i = count; i-- > 0;) {
    if (parts[i] != 0.0) return parts[i];
  }
  return 0.0;
}

}  // namespace driftbound::num
