#pragma once

#include <cmath>
#include <compare>
#include <limits>

namespace driftbound {

/// An upper bound of a nonnegative real number. Every operation rounds up; NaN becomes infinity,
/// so that a comparison `error <= bound` can only fail on the safe side.
/// Guarantee: if x <= X and y <= Y then x + y <= X + Y, x y <= X Y, max(x, y) <= max(X, Y).
/// Source:    docs/theory.md T-03
class Magnitude {
public:
  constexpr Magnitude() = default;
  /// Upper bound of |x|; NaN becomes infinity.
  explicit Magnitude(double x) : value_(std::isnan(x) ? std::numeric_limits<double>::infinity() : std::abs(x)) {}
  static Magnitude infinite();

  double value() const { return value_; }
  bool is_finite() const;

  Magnitude& operator+=(Magnitude other);
  Magnitude& operator*=(Magnitude other);
  friend Magnitude operator+(Magnitude a, Magnitude b) { return a += b; }
  friend Magnitude operator*(Magnitude a, Magnitude b) { return a *= b; }
  friend bool operator==(Magnitude a, Magnitude b) = default;
  friend auto operator<=>(Magnitude a, Magnitude b) = default;

private:
  double value_ = 0.0;
};

/// Upper bound of x / d for every x <= X and every d >= denominator_lower > 0; infinite otherwise.
Magnitude divide_up(Magnitude x, double denominator_lower);
Magnitude sqrt_up(Magnitude x);
/// Upper bound of X - y for every y >= subtrahend_lower >= 0, never below 0.
Magnitude subtract_up(Magnitude x, double subtrahend_lower);

}  // namespace driftbound
