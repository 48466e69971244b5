#pragma once

#include "networks.hpp"
#include "oracle.hpp"
#include "reference/ball_tensor.hpp"

/// Multi-precision balls for tests: made of numbers, and checked against 400 digits.
namespace mp {

using oracle::Real400;

inline Real400 real(const driftbound::Scaled& x) {
  Real400 value(x.mantissa());
  mpfr_mul_2si(value.backend().data(), value.backend().data(), x.exponent(), MPFR_RNDN);
  return x.is_zero() ? Real400(0) : value;
}

inline Real400 midpoint(const driftbound::MpBall& ball) {
  Real400 value;
  mpfr_set(value.backend().data(), ball.mid(), MPFR_RNDN);
  return value;
}

inline void set(driftbound::MpBall& ball, const Real400& midpoint, driftbound::Scaled radius) {
  mpfr_set(ball.mid(), midpoint.backend().data(), MPFR_RNDN);
  ball.radius = radius;
}

/// A point of the ball: an end, the midpoint, or one in between. The last digit stays inside.
inline Real400 point(const driftbound::MpBall& ball, networks::Maker& make) {
  const double places[] = {-1.0, 1.0, 0.0, static_cast<double>(make.below(1000)) / 500.0 - 1.0};
  return midpoint(ball) + real(ball.radius) * Real400(places[make.below(4)]);
}

/// Slack for the oracle's own 400 digits, far below anything a ball of some hundred bits claims.
inline bool contains(const driftbound::MpBall& ball, const Real400& x) {
  if (ball.is_void() || ball.is_unknown()) return true;
  return oracle::is_number(x) && abs(x - midpoint(ball)) <= real(ball.radius) + abs(x) * Real400("1e-395");
}

inline Real400 gelu(const Real400& x) {
  Real400 y = -x / sqrt(Real400(2));
  mpfr_erfc(y.backend().data(), y.backend().data(), MPFR_RNDN);
  return x * y / 2;
}

inline Real400 gelu_tanh(const Real400& x) {
  Real400 pi;
  mpfr_const_pi(pi.backend().data(), MPFR_RNDN);
  const Real400 v = 2 * sqrt(2 / pi) * (x + Real400(44715) / 1000000 * x * x * x);
  return x / (1 + exp(-v));
}

}  // namespace mp
