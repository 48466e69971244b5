#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

/// What T-83 in docs/theory.md asks of a row before its products are added up.
namespace driftbound::num {

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

inline double power_of_two(int exponent) {
  return std::ldexp(1.0, exponent);
}

}  // namespace driftbound::num
