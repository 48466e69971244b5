#pragma once

#include "driftbound/num/magnitude.hpp"

namespace driftbound {

/// The set of reals x with lower <= x <= upper; an infinite bound is no bound. Never empty.
/// Guarantee: x in X and y in Y imply x op y in X op Y, f(x) in f(X). An operation that is undefined
///            somewhere on its operands (division by an interval that holds 0, log of one that
///            holds 0 or less, sqrt of one that reaches below 0, tan across a pole) gives the whole line.
/// Tightness: each bound of + - * / sqrt is the directed IEEE result (num/directed.hpp); exp, log,
///            tanh, sin, cos, erf and so on are MPFR's directed results at 53 bits; abs, max, min, floor,
///            ceil and sign are exact.
/// Source:    docs/theory.md T-06
/// Throws:    UnsoundEnvironment from constructors that take numbers, from member functions that compute and from every
///            operation, in a thread that flushes subnormal results or operands (FTZ, DAZ). The rounding mode may be any
class Interval {
public:
  constexpr Interval() = default;
  /// [point, point]; the whole line where the point is not a real number (NaN, infinities).
  Interval(double point);  // NOLINT(google-explicit-constructor): scalars mix with intervals in evaluate_as
  /// Throws:    InvalidArgument unless lower <= upper, lower < infinity and upper > -infinity
  Interval(double lower, double upper);
  static Interval whole();

  double lower() const { return lower_; }
  double upper() const { return upper_; }
  bool contains(double x) const;
  bool contains(const Interval& x) const;
  bool is_finite() const;
  /// sup |x| over the interval
  Magnitude magnitude() const;
  /// inf |x| over the interval
  double mignitude() const;
  Magnitude width() const;
  /// A finite number in the interval, next to its middle.
  double midpoint() const;

  Interval operator-() const;
  Interval& operator+=(const Interval& y);
  Interval& operator-=(const Interval& y);
  Interval& operator*=(const Interval& y);
  Interval& operator/=(const Interval& y);
  friend Interval operator+(Interval x, const Interval& y) { return x += y; }
  friend Interval operator-(Interval x, const Interval& y) { return x -= y; }
  friend Interval operator*(Interval x, const Interval& y) { return x *= y; }
  friend Interval operator/(Interval x, const Interval& y) { return x /= y; }
  friend bool operator==(const Interval&, const Interval&) = default;

private:
  double lower_ = 0.0;
  double upper_ = 0.0;
};

Interval abs(const Interval& x);
Interval max(const Interval& x, const Interval& y);
Interval min(const Interval& x, const Interval& y);
Interval hull(const Interval& x, const Interval& y);
Interval sqrt(const Interval& x);
Interval exp(const Interval& x);
Interval expm1(const Interval& x);
Interval log(const Interval& x);
Interval log1p(const Interval& x);
Interval tanh(const Interval& x);
Interval sin(const Interval& x);
Interval cos(const Interval& x);
Interval erf(const Interval& x);
Interval tan(const Interval& x);
Interval atan(const Interval& x);
Interval sinh(const Interval& x);
Interval cosh(const Interval& x);
/// x^p, where x^0 = 1 for every x; 0^p with p < 0, negative x with p no integer and p no real number are undefined.
Interval pow(const Interval& x, double p);
Interval floor(const Interval& x);
Interval rint(const Interval& x);  ///< the nearest integer, the even one of two
Interval ceil(const Interval& x);
/// -1, 0 or 1
Interval sign(const Interval& x);

}  // namespace driftbound
