#pragma once

#include <mpfr.h>

#include <compare>
#include <cstdint>
#include <limits>

#include "driftbound/num/magnitude.hpp"

namespace driftbound {

/// A nonnegative number mantissa * 2^exponent, mantissa in [1/2, 1), |exponent| <= 2^60, or zero, or infinity.
/// Radii of balls with thousands of bits lie far below the smallest double; this is their type.
/// Operations end in the direction in which they round; NaN and anything too large is infinity.
/// Guarantee: x <= X and y <= Y imply x + y <= add_up(X, Y), x y <= mul_up(X, Y); the same for the others.
/// Tightness: relative excess at most 2^-50 per operation, inside the exponent range
/// Source:    docs/theory.md T-30
class Scaled {
public:
  constexpr Scaled() = default;
  /// m * 2^exponent for m >= 0; rounds up where the result is below the range.
  static Scaled of(double m, std::int64_t exponent = 0);
  static Scaled power_of_two(std::int64_t exponent) { return of(1.0, exponent); }
  static Scaled smallest();
  static constexpr Scaled infinite() { return Scaled(largest_exponent + 2, 1.0); }
  /// |x| rounded up; infinite for NaN.
  static Scaled upper(mpfr_srcptr x);
  /// |x| rounded down; zero for NaN.
  static Scaled lower(mpfr_srcptr x);

  bool is_zero() const { return mantissa_ == 0.0; }
  bool is_finite() const { return exponent_ <= largest_exponent; }
  double mantissa() const { return mantissa_; }
  std::int64_t exponent() const { return exponent_; }
  double to_double_up() const;
  double to_double_down() const;

  friend constexpr auto operator<=>(const Scaled&, const Scaled&) = default;
  friend constexpr bool operator==(const Scaled&, const Scaled&) = default;

  static constexpr std::int64_t largest_exponent = std::int64_t{1} << 60;

private:
  constexpr Scaled(std::int64_t exponent, double mantissa) : exponent_(exponent), mantissa_(mantissa) {}
  // Exponent first, so that the default order is the order of the numbers.
  std::int64_t exponent_ = std::numeric_limits<std::int64_t>::min();
  double mantissa_ = 0.0;
};

Scaled add_up(Scaled x, Scaled y);
Scaled mul_up(Scaled x, Scaled y);
/// Infinite where y is zero.
Scaled div_up(Scaled x, Scaled y);
Scaled sqrt_down(Scaled x);
/// max(0, x - y) rounded down.
Scaled sub_down(Scaled x, Scaled y);
/// An upper bound of e^t, at most four times as large.
Scaled exp_up(double t);
/// An upper bound of e^r - 1, relative excess O(r) for small r.
Scaled expm1_up(Scaled r);

}  // namespace driftbound
