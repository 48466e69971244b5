#pragma once

#include "driftbound/num/interval.hpp"

namespace driftbound {

/// A number and how far a real number may be from it.
struct Enclosed {
  double value = 0.0;
  double error = 0.0;
};

/// The middle of an interval and its half width; 0 and infinity where a bound is infinite.
Enclosed enclosed(const Interval& x);

/// f(x) in double: |f(x) - value| <= error. Where a kernel does not cover x the interval of 53 bits takes its place:
/// arguments beyond those named, or nearer to 0 than 2^-500 but not 0; NaN and infinities give an infinite error.
/// Guarantee: proven
/// Tightness: the error is at most the multiple named of |value| 2^-53
/// Source:    docs/theory.md T-80
Enclosed enclosed_exp(double x);       ///< 2, for -708 <= x <= 709; 0 at 0
Enclosed enclosed_expm1(double x);     ///< 8, for -708 <= x <= 709
Enclosed enclosed_tanh(double x);      ///< 6, for |x| <= 350
Enclosed enclosed_sigmoid(double x);   ///< 4, for |x| <= 700
Enclosed enclosed_softplus(double x);  ///< 9, for |x| <= 700
Enclosed enclosed_sin(double x);       ///< 2.5 for |x| < pi/4; an error of 2.5 2^-53 for |x| <= 2^20
Enclosed enclosed_cos(double x);       ///< an error of 2.5 2^-53 for |x| <= 2^20
Enclosed enclosed_erf(double x);       ///< 10, for |x| <= 1

}  // namespace driftbound
