#include "evaluate/functions.hpp"

#include <mpfr.h>

#include "num/mpfr_value.hpp"

namespace driftbound::accumulator {
namespace {

using num::MpfrValue;

double nearest(const MpfrValue& x) {
  return mpfr_get_d(x.get(), MPFR_RNDN);
}

/// Rounds once: the intermediate result is rounded to odd (truncated, the last bit set where that was
/// inexact), after which rounding to nearest gives the double nearest to f(x), normal or subnormal.
template <class Function>
double correctly_rounded(double x, Function f) {
  constexpr mpfr_prec_t precision_bits = 64;
  const MpfrValue argument(x, 53);
  MpfrValue result(precision_bits);
  const bool inexact = f(result.get(), argument.get(), MPFR_RNDZ) != 0;
  if (inexact && mpfr_regular_p(result.get()) != 0 && mpfr_min_prec(result.get()) < precision_bits) {
    const bool positive = mpfr_sgn(result.get()) > 0;
    positive ? mpfr_nextabove(result.get()) : mpfr_nextbelow(result.get());
  }
  return nearest(result);
}

/// Encloses f(x) more and more tightly until both ends round to the same double. Enclose(lower, upper, x)
/// works at the precision of its results.
template <class Enclose>
double by_enclosure(double x, Enclose enclose) {
  const MpfrValue argument(x, 53);
  for (mpfr_prec_t precision_bits = 96;; precision_bits *= 2) {
    MpfrValue lower(precision_bits), upper(precision_bits);
    enclose(lower.get(), upper.get(), argument.get());
    if (nearest(lower) == nearest(upper)) return nearest(lower);
  }
}

}  // namespace

double exp(double x) {
  return correctly_rounded(x, mpfr_exp);
}
double expm1(double x) {
  return correctly_rounded(x, mpfr_expm1);
}
double tanh(double x) {
  return correctly_rounded(x, mpfr_tanh);
}
double sin(double x) {
  return correctly_rounded(x, mpfr_sin);
}
double cos(double x) {
  return correctly_rounded(x, mpfr_cos);
}
double erf(double x) {
  return correctly_rounded(x, mpfr_erf);
}

double log(double x) {
  return correctly_rounded(x, mpfr_log);
}
double log1p(double x) {
  return correctly_rounded(x, mpfr_log1p);
}
double tan(double x) {
  return correctly_rounded(x, mpfr_tan);
}
double atan(double x) {
  return correctly_rounded(x, mpfr_atan);
}
double sinh(double x) {
  return correctly_rounded(x, mpfr_sinh);
}
double cosh(double x) {
  return correctly_rounded(x, mpfr_cosh);
}
double pow(double x, double p) {
  const MpfrValue exponent(p, 53);
  return correctly_rounded(x, [&](mpfr_ptr result, mpfr_srcptr argument, mpfr_rnd_t rounding) {
    return mpfr_pow(result, argument, exponent.get(), rounding);
  });
}

double sigmoid(double x) {
  if (std::isnan(x)) return x;
  return by_enclosure(-x, [](mpfr_ptr lower, mpfr_ptr upper, mpfr_srcptr minus_x) {
    mpfr_exp(lower, minus_x, MPFR_RNDU);
    mpfr_exp(upper, minus_x, MPFR_RNDD);
    mpfr_add_ui(lower, lower, 1, MPFR_RNDU);
    mpfr_add_ui(upper, upper, 1, MPFR_RNDD);
    mpfr_ui_div(lower, 1, lower, MPFR_RNDD);
    mpfr_ui_div(upper, 1, upper, MPFR_RNDU);
  });
}

double softplus(double x) {
  if (std::isnan(x) || x > 1000.0) return x;  // log(1 + e^-x) is far below the last bit of x
  return by_enclosure(x, [](mpfr_ptr lower, mpfr_ptr upper, mpfr_srcptr argument) {
    mpfr_exp(lower, argument, MPFR_RNDD);
    mpfr_exp(upper, argument, MPFR_RNDU);
    mpfr_log1p(lower, lower, MPFR_RNDD);
    mpfr_log1p(upper, upper, MPFR_RNDU);
  });
}

}  // namespace driftbound::accumulator
