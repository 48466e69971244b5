#pragma once

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <cstddef>
#include <vector>

#include "driftbound/trace/arithmetic.hpp"

/// One part of a sum as a matrix unit forms it, word for word as docs/theory.md T-21 says, in exact rational numbers.
/// Shares nothing with the other emulators but the description of the unit.
namespace checks::rational {

using boost::multiprecision::cpp_int;
using boost::multiprecision::cpp_rational;

inline cpp_rational power_of_two(int exponent) {
  const cpp_int power = cpp_int(1) << std::abs(exponent);
  return exponent < 0 ? cpp_rational(cpp_int(1), power) : cpp_rational(power);
}

/// Of the leading bit of x, but `lowest` at least, and -126 of 0.
inline int exponent_of(const cpp_rational& x, int lowest) {
  if (x == 0) return -126;
  const cpp_rational magnitude = abs(x);
  int exponent = static_cast<int>(msb(numerator(magnitude))) - static_cast<int>(msb(denominator(magnitude)));
  if (magnitude < power_of_two(exponent)) --exponent;
  return std::max(exponent, lowest);
}

/// x cut, toward zero, to a multiple of 2^quantum.
inline cpp_rational cut(const cpp_rational& x, int quantum) {
  const cpp_rational multiples = x / power_of_two(quantum);
  return cpp_rational(cpp_int(numerator(multiples) / denominator(multiples))) * power_of_two(quantum);
}

/// The sum of a_k b_k, with `block` products a step.
/// Domain:    every number finite, of a format whose lowest exponent is min_exponent
inline cpp_rational unit_sum(const std::vector<double>& a, const std::vector<double>& b, const TensorCore& unit,
                             int min_exponent) {
  cpp_rational sum = 0;
  const auto block = static_cast<std::size_t>(unit.block);
  for (std::size_t first = 0; first < a.size(); first += block) {
    const std::size_t end = std::min(first + block, a.size());
    int largest = exponent_of(sum, -126);
    for (std::size_t k = first; k < end; ++k) {
      const int of_product =
          exponent_of(cpp_rational(a[k]), min_exponent) + exponent_of(cpp_rational(b[k]), min_exponent);
      largest = std::max(largest, of_product);
    }
    cpp_rational next = cut(sum, largest - unit.fraction_bits);
    for (std::size_t k = first; k < end; ++k)
      next += cut(cpp_rational(a[k]) * cpp_rational(b[k]), largest - unit.fraction_bits);
    sum = cut(next, exponent_of(next, -126) - unit.sum_bits);
  }
  return sum;
}

}  // namespace checks::rational
