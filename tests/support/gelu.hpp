#pragma once

#include "support/real.hpp"

/// Gelu with its derivatives, both forms.
namespace checks {

inline Real root_of_two_over_pi() {
  return (Real(0.5) / Real(1.0).apply(mpfr_atan)).apply(mpfr_sqrt);
}

/// x s(x), s = Phi or the sigmoid of v(x).
struct ExactGelu {
  Real value, slope, curvature, third;
};

inline ExactGelu exact_gelu(const Real& x, bool is_tanh_form) {
  const Real square = x * x;
  if (!is_tanh_form) {
    const Real share = Real(0.5) * (-x / Real(2.0).apply(mpfr_sqrt)).apply(mpfr_erfc);
    const Real density = Real(0.5) * root_of_two_over_pi() * (Real(-0.5) * square).apply(mpfr_exp);
    return {x * share, share + x * density, density * (Real(2.0) - square), density * x * (square - Real(4.0))};
  }
  const Real step = Real(2.0) * root_of_two_over_pi(), bend = step * Real(44715.0) / Real(1e6), one(1.0);
  const Real e = (-x * (step + bend * square)).apply(mpfr_exp);
  const Real share = one / (one + e), q = share * (e / (one + e)), tilt = one - Real(2.0) * share;
  const Real v1 = step + Real(3.0) * bend * square, v2 = Real(6.0) * bend * x, v3 = Real(6.0) * bend;
  const Real s1 = q * v1, s2 = q * tilt * v1 * v1 + q * v2;
  const Real s3 = q * (one - Real(6.0) * q) * v1 * v1 * v1 + Real(3.0) * q * tilt * v1 * v2 + q * v3;
  return {x * share, share + x * s1, Real(2.0) * s1 + x * s2, Real(3.0) * s2 + x * s3};
}

inline Real gelu(const Real& x, bool is_tanh_form) {
  return exact_gelu(x, is_tanh_form).value;
}

}  // namespace checks
