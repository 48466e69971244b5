#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "linalg/kernels/exact_product.hpp"

/// What T-83 in docs/theory.md asks of a row before its products are added up.
namespace driftbound::linalg {

inline constexpr std::size_t longest_row = std::size_t{1} << 26;
/// Products of scaled rows that are multiples of 2^exact_unit leave no bit behind.
inline constexpr std::int32_t exact_unit = -96;

/// e with norm <= 2^e (1 - 2^-22)^(1/2), from the sum of the squares in double to nearest; 0 for a row of zeros.
inline int scale_exponent(double squares) {
  if (squares == 0.0) return 0;
  int exponent = 0;
  std::frexp(squares * (1.0 + 0x1p-20), &exponent);
  return (exponent + 1) >> 1;
}

/// The exponent of the last bit of x that is not 0; no_unit for 0.
inline std::int32_t last_bit(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto biased = static_cast<std::int32_t>((bits >> 52) & 0x7ff);
  const std::uint64_t mantissa = (bits & 0xfffffffffffff) | (biased == 0 ? 0 : std::uint64_t{1} << 52);
  return mantissa == 0 ? no_unit : std::max(biased, 1) - 1075 + std::countr_zero(mantissa);
}

inline double power_of_two(int exponent) {
  return std::ldexp(1.0, exponent);
}

}  // namespace driftbound::linalg
