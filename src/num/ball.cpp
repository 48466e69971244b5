#include "driftbound/num/ball.hpp"

#include <algorithm>
#include <cmath>

#include "driftbound/num/directed.hpp"
#include "num/error_free.hpp"

namespace driftbound {
namespace {

using num::ErrorFree;
using num::two_sum;

Ball whole_line() {
  return {0.0, 0.0, Magnitude::infinite()};
}

/// high + low exactly as a midpoint.
Ball normalised(double high, double low, Magnitude radius) {
  const ErrorFree midpoint = two_sum(high, low);
  const Ball ball{midpoint.value, midpoint.error, radius};
  return ball.is_finite() ? ball : whole_line();
}

/// Upper bound of |z - RN(z)| given RN(z).
Magnitude rounding_of(double rounded) {
  return Magnitude(rounded) * Magnitude(0x1p-53) + Magnitude(0x1p-1074);
}

/// Upper bound of |hi + lo|.
Magnitude magnitude_of_midpoint(const Ball& x) {
  return Magnitude(x.hi) + Magnitude(x.lo);
}

}  // namespace

bool Ball::is_finite() const {
  return std::isfinite(hi) && std::isfinite(lo) && radius.is_finite();
}

bool Ball::contains(double x) const {
  if (!is_finite()) return true;
  if (!(std::abs(x) + std::abs(hi) + radius.value() < 0x1p1022)) return false;
  const bool above_lower = num::sign_of_sum<4>({x, -hi, -lo, radius.value()}) >= 0.0;
  const bool below_upper = num::sign_of_sum<4>({x, -hi, -lo, -radius.value()}) <= 0.0;
  return above_lower && below_upper;
}

Interval Ball::enclosure() const {
  if (!is_finite()) return Interval::whole();
  return Interval(add_down(hi, sub_down(lo, radius.value())), add_up(hi, add_up(lo, radius.value())));
}

Ball exact_ball(double x) {
  return std::isfinite(x) ? Ball{x, 0.0, Magnitude()} : whole_line();
}

Ball operator-(const Ball& x) {
  return {-x.hi, -x.lo, x.radius};
}

Ball operator+(const Ball& x, const Ball& y) {
  if (!x.is_finite() || !y.is_finite()) return whole_line();
  const ErrorFree high = two_sum(x.hi, y.hi);
  const ErrorFree low = two_sum(x.lo, y.lo);
  const ErrorFree middle = two_sum(high.error, low.value);
  return normalised(high.value, middle.value, x.radius + y.radius + Magnitude(low.error) + Magnitude(middle.error));
}

Ball operator-(const Ball& x, const Ball& y) {
  return x + -y;
}

Ball operator*(const Ball& x, const Ball& y) {
  if (!x.is_finite() || !y.is_finite()) return whole_line();
  const double product = x.hi * y.hi;
  const double residual = std::fma(x.hi, y.hi, -product);
  const double one_cross = std::fma(x.lo, y.hi, residual);
  const double low = std::fma(x.hi, y.lo, one_cross);

  Magnitude radius = magnitude_of_midpoint(x) * y.radius + magnitude_of_midpoint(y) * x.radius + x.radius * y.radius;
  radius += Magnitude(x.lo) * Magnitude(y.lo);
  const bool residual_is_exact = x.hi == 0.0 || y.hi == 0.0 || std::abs(product) >= 0x1p-960;
  if (!residual_is_exact) radius += Magnitude(0x1p-1074);
  if (x.lo != 0.0) radius += rounding_of(one_cross);
  if (y.lo != 0.0) radius += rounding_of(low);
  return normalised(product, low, radius);
}

Interval error_of(double computed, const Ball& exact) {
  if (!std::isfinite(computed) || !exact.is_finite()) return Interval::whole();
  const ErrorFree difference = two_sum(computed, -exact.hi);
  if (!std::isfinite(difference.error)) return Interval::whole();
  const Interval from_midpoint = abs(Interval(difference.value) + (Interval(difference.error) - Interval(exact.lo)));
  const double radius = exact.radius.value();
  return Interval(std::max(0.0, sub_down(from_midpoint.lower(), radius)), add_up(from_midpoint.upper(), radius));
}

double approx_error_of(double computed, const Ball& exact) {
  const ErrorFree difference = two_sum(computed, -exact.hi);
  return std::abs(difference.value + (difference.error - exact.lo));
}

}  // namespace driftbound
