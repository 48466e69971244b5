// The elementary functions of Interval, by MPFR's directed results.
#include <mpfr.h>

#include <algorithm>
#include <cmath>

#include "driftbound/num/interval.hpp"
#include "num/mpfr_value.hpp"

namespace driftbound {
namespace {

using num::MpfrValue;
using Function = int (*)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);

constexpr mpfr_prec_t double_bits = 53;

/// f(x) rounded in one direction, also where the result is subnormal or overflows.
double directed(Function f, double x, mpfr_rnd_t direction) {
  MpfrValue value(x, double_bits, direction);
  f(value.get(), value.get(), direction);
  return mpfr_get_d(value.get(), direction);
}

Interval increasing(Function f, const Interval& x) {
  return Interval(directed(f, x.lower(), MPFR_RNDD), directed(f, x.upper(), MPFR_RNDU));
}

/// floor(x/pi - shift), or a neighbour on the side of `direction` where x/pi - shift is within 2^-100 of an integer.
/// No double but 0 comes as near to a multiple of pi/2.
MpfrValue periods_before(double x, double shift, mpfr_rnd_t direction) {
  const int exponent = std::max(0, std::ilogb(x) + 1);  // |x| < 2^exponent; ilogb(0) is negative
  const mpfr_prec_t bits = exponent + 128;
  MpfrValue count(bits);
  mpfr_const_pi(count.get(), MPFR_RNDN);
  mpfr_d_div(count.get(), x, count.get(), MPFR_RNDN);  // error below 2^(exponent - bits + 2) = 2^-126
  mpfr_sub_d(count.get(), count.get(), shift, MPFR_RNDN);
  mpfr_add_d(count.get(), count.get(), direction == MPFR_RNDD ? -0x1p-100 : 0x1p-100, MPFR_RNDN);
  mpfr_floor(count.get(), count.get());
  return count;
}

bool is_even(const MpfrValue& integer) {
  MpfrValue half(integer);
  mpfr_div_2ui(half.get(), half.get(), 1, MPFR_RNDN);
  return mpfr_integer_p(half.get()) != 0;
}

/// A function of period 2 pi whose extrema are (-1)^k at (k + shift) pi.
Interval wave(Function f, double shift, const Interval& x) {
  const Interval everything(-1.0, 1.0);
  if (!x.is_finite() || x.width().value() > 6.5) return everything;

  const MpfrValue before = periods_before(x.lower(), shift, MPFR_RNDD);
  const MpfrValue within = periods_before(x.upper(), shift, MPFR_RNDU);
  MpfrValue crossed(within.precision_bits());
  mpfr_sub(crossed.get(), within.get(), before.get(), MPFR_RNDN);
  if (mpfr_cmp_ui(crossed.get(), 1) > 0) return everything;

  const double lower = std::min(directed(f, x.lower(), MPFR_RNDD), directed(f, x.upper(), MPFR_RNDD));
  const double upper = std::max(directed(f, x.lower(), MPFR_RNDU), directed(f, x.upper(), MPFR_RNDU));
  if (mpfr_zero_p(crossed.get())) return Interval(lower, upper);
  return is_even(within) ? Interval(lower, 1.0) : Interval(-1.0, upper);
}

/// Whether x/pi - shift may be an integer somewhere on x.
bool may_hold_a_multiple(const Interval& x, double shift) {
  const MpfrValue before = periods_before(x.lower(), shift, MPFR_RNDD);
  const MpfrValue within = periods_before(x.upper(), shift, MPFR_RNDU);
  return mpfr_equal_p(before.get(), within.get()) == 0;
}

double directed_power(double x, double p, mpfr_rnd_t direction) {
  MpfrValue value(x, double_bits, direction);
  const MpfrValue exponent(p, double_bits);
  mpfr_pow(value.get(), value.get(), exponent.get(), direction);
  return mpfr_get_d(value.get(), direction);
}

/// x^p where it increases or decreases on all of x.
Interval monotone_power(const Interval& x, double p, bool increases) {
  const double low = increases ? x.lower() : x.upper();
  const double high = increases ? x.upper() : x.lower();
  return Interval(directed_power(low, p, MPFR_RNDD), directed_power(high, p, MPFR_RNDU));
}

double sign_of(double x) {
  return static_cast<double>((x > 0.0) - (x < 0.0));
}

}  // namespace

Interval exp(const Interval& x) {
  return increasing(mpfr_exp, x);
}
Interval expm1(const Interval& x) {
  return increasing(mpfr_expm1, x);
}
Interval tanh(const Interval& x) {
  return increasing(mpfr_tanh, x);
}
Interval erf(const Interval& x) {
  return increasing(mpfr_erf, x);
}

Interval log(const Interval& x) {
  return x.lower() > 0.0 ? increasing(mpfr_log, x) : Interval::whole();
}
Interval log1p(const Interval& x) {
  return x.lower() > -1.0 ? increasing(mpfr_log1p, x) : Interval::whole();
}

Interval atan(const Interval& x) {
  return increasing(mpfr_atan, x);
}
Interval sinh(const Interval& x) {
  return increasing(mpfr_sinh, x);
}
Interval cosh(const Interval& x) {
  return increasing(mpfr_cosh, abs(x));
}

Interval tan(const Interval& x) {
  if (!x.is_finite() || x.width().value() > 3.2 || may_hold_a_multiple(x, 0.5)) return Interval::whole();
  return increasing(mpfr_tan, x);
}

Interval pow(const Interval& x, double p) {
  if (p == 0.0) return Interval(1.0);
  const bool is_integer = std::trunc(p) == p;
  const bool is_defined = std::isfinite(p) && (is_integer || x.lower() >= 0.0) && (p > 0.0 || !x.contains(0.0));
  if (!is_defined) return Interval::whole();
  const bool is_odd = is_integer && std::fmod(p, 2.0) != 0.0;
  return monotone_power(is_integer && !is_odd ? abs(x) : x, p, p > 0.0);
}

Interval rint(const Interval& x) {
  return Interval(std::rint(x.lower()), std::rint(x.upper()));
}
Interval floor(const Interval& x) {
  return Interval(std::floor(x.lower()), std::floor(x.upper()));
}
Interval ceil(const Interval& x) {
  return Interval(std::ceil(x.lower()), std::ceil(x.upper()));
}
Interval sign(const Interval& x) {
  return Interval(sign_of(x.lower()), sign_of(x.upper()));
}

Interval sin(const Interval& x) {
  return wave(mpfr_sin, 0.5, x);
}
Interval cos(const Interval& x) {
  return wave(mpfr_cos, 0.0, x);
}

}  // namespace driftbound
