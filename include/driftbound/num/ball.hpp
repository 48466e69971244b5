#pragma once

#include "driftbound/num/interval.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound {

/// The set of reals within `radius` of the midpoint hi + lo (an unevaluated double-double sum with
/// |lo| <= ulp(hi)/2). An infinite radius, or a midpoint that is not finite, is the whole line.
/// Guarantee: operations enclose: x in X and y in Y imply x op y in X op Y.
/// Tightness: + and - add at most 4 * 2^-106 (|x| + |y|) to the radii, * at most 8 * 2^-106 |x y| + 2^-1071
/// Source:    docs/theory.md T-07
struct Ball {
  double hi = 0.0;
  double lo = 0.0;
  Magnitude radius;

  bool is_finite() const;
  /// Decided exactly where |x| + |hi| + radius < 2^1022; false beyond, true on the whole line.
  bool contains(double x) const;
  /// Outward enclosure in double.
  Interval enclosure() const;
};

Ball exact_ball(double x);
Ball operator-(const Ball& x);
Ball operator+(const Ball& x, const Ball& y);
Ball operator-(const Ball& x, const Ball& y);
Ball operator*(const Ball& x, const Ball& y);

/// Enclosure of |computed - exact| for every exact value in the ball:
/// [max(0, |computed - mid| - radius), |computed - mid| + radius], outward.
/// Domain:    a computed value that is not finite gives the whole line
Interval error_of(double computed, const Ball& exact);

/// |computed - mid| rounded to nearest: the error as a report prints it, without the radius.
double approx_error_of(double computed, const Ball& exact);

}  // namespace driftbound
