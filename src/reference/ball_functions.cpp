#include "reference/ball_functions.hpp"

#include <algorithm>
#include <cmath>

#include "driftbound/num/directed.hpp"
#include "num/mpfr_value.hpp"
#include "reference/error_function.hpp"

namespace driftbound {

namespace {

bool certainly_not_negative(const MpBall& x) {
  return mpfr_sgn(x.mid()) >= 0 && Scaled::lower(x.mid()) >= x.radius;
}
bool certainly_not_positive(const MpBall& x) {
  return mpfr_sgn(x.mid()) <= 0 && Scaled::lower(x.mid()) >= x.radius;
}

bool is_exact_zero(const MpBall& x) {
  return x.is_exact() && mpfr_zero_p(x.mid());
}

Scaled lower_magnitude(const MpBall& x) {
  return sub_down(Scaled::lower(x.mid()), x.radius);
}
double upper_end(const MpBall& x) {
  return add_up(mpfr_get_d(x.mid(), MPFR_RNDU), x.radius.to_double_up());
}
double lower_magnitude_as_double(const MpBall& x) {
  return lower_magnitude(x).to_double_down();
}

// Upper bound of |t| for every t that rounds to the midpoint (of at least 24 bits), or underflows to it.
Scaled upper_before_rounding(const MpBall& y) {
  return mul_up(add_up(Scaled::upper(y.mid()), Scaled::smallest()), Scaled::of(1.0 + 0x1p-20));
}

// |f(x') - f(x)| <= slope |x' - x|
Scaled scaled_radius(const MpBall& x, Scaled slope) {
  return mul_up(x.radius, slope);
}

// A relative error of at most 7 * 2^-bits is less than 2^4 half units in the last place.
constexpr int relative_error_of_seven = 4;

// The argument is reduced modulo pi with as many bits as its exponent has; beyond this nobody waits for it.
constexpr mpfr_exp_t largest_circular_exponent = 1 << 16;

bool has_useful_phase(const MpBall& x) {
  return x.radius < Scaled::of(2.0) && (mpfr_zero_p(x.mid()) || mpfr_get_exp(x.mid()) <= largest_circular_exponent);
}

// mpfr_erf of MPFR 4.2.0 ends the program at arguments within about 2^-1022 of sqrt(3). Where x is close to that,
// it is asked for a number this far away.
constexpr int step_from_sqrt_3 = -896;

bool is_too_close_to_sqrt_3(mpfr_srcptr x) {
  if (mpfr_get_prec(x) < -step_from_sqrt_3 || !mpfr_regular_p(x)) return false;
  const num::MpfrValue three(3.0, 53);
  num::MpfrValue difference(53);
  mpfr_fms(difference.get(), x, x, three.get(), MPFR_RNDN);
  return mpfr_zero_p(difference.get()) || mpfr_get_exp(difference.get()) < step_from_sqrt_3;
}

// Beyond 2^30 Gelu is 0 or its argument but for less than 2^(-2^59) (T-33), and erfc may leave the range of exponents.
constexpr mpfr_exp_t largest_gaussian_exponent = 30;
const Scaled least_gaussian = Scaled::power_of_two(-(std::int64_t{1} << 59));

// Upper bound of the slopes of Gelu over a ball.
Scaled steepest_gaussian_linear(const MpBall& x) {
  if (!certainly_not_positive(x)) return Scaled::of(1.13);
  const double least = lower_magnitude_as_double(x);
  const Scaled most = add_up(Scaled::upper(x.mid()), x.radius);
  const Scaled factor = std::max(Scaled::of(0.5), mul_up(Scaled::of(0.4), most));
  return std::min(Scaled::of(1.13), mul_up(factor, exp_up(-0.5 * mul_down(least, least))));
}

void set_range(MpBall& y, double center, double half_width) {
  mpfr_set_d(y.mid(), center, MPFR_RNDN);
  y.radius = Scaled::of(half_width);
}

// Replaces m +- r by [0, m + r] as the ball h +- h; the end is rounded up, so that the ball also covers halving it.
void cut_at_zero(MpBall& y) {
  num::MpfrValue end(y.radius.mantissa(), 53);
  mpfr_mul_2si(end.get(), end.get(), y.radius.exponent(), MPFR_RNDN);
  mpfr_add(y.mid(), y.mid(), end.get(), MPFR_RNDU);
  mpfr_div_2ui(y.mid(), y.mid(), 1, MPFR_RNDU);
  y.radius = Scaled::upper(y.mid());
}

// Upper bound of base^p.
Scaled power_up(Scaled base, double p) {
  if (!base.is_finite() || base.is_zero()) return (p > 0.0) == base.is_zero() ? Scaled() : Scaled::infinite();
  constexpr mpfr_prec_t precision_bits = 64;
  num::MpfrValue value(base.mantissa(), precision_bits);
  mpfr_mul_2si(value.get(), value.get(), base.exponent(), MPFR_RNDN);
  mpfr_pow(value.get(), value.get(), num::MpfrValue(p, 53).get(), MPFR_RNDU);
  return std::max(Scaled::upper(value.get()), Scaled::smallest());
}

// Whether every point of x rounds to the integer that is the midpoint of y, 1 being the way to the next one.
bool rounds_alike(const MpBall& y, const MpBall& x, long way, MpBall& scratch) {
  if (x.is_exact()) return true;
  mpfr_ptr distance = scratch.mid();
  mpfr_sub(distance, x.mid(), y.mid(), MPFR_RNDZ);
  if (Scaled::lower(distance) < x.radius) return false;
  mpfr_add_si(distance, y.mid(), way, MPFR_RNDZ);  // exact: otherwise every number of this size is an integer
  mpfr_sub(distance, distance, x.mid(), MPFR_RNDZ);
  return Scaled::lower(distance) > x.radius;
}

// max, or with direction = -1 min.
void extremum(MpBall& y, const MpBall& a, const MpBall& b, int direction) {
  if (a.is_void() || b.is_void()) return make_void(y);
  mpfr_sub(y.mid(), a.mid(), b.mid(), MPFR_RNDZ);
  const bool a_wins = mpfr_sgn(y.mid()) * direction >= 0;
  const MpBall& winner = a_wins ? a : b;
  const Scaled reach = add_up(a.radius, b.radius);
  if (Scaled::lower(y.mid()) >= reach) return assign(y, winner);
  if (!reach.is_finite()) return make_unknown(y);
  settle(y, mpfr_set(y.mid(), winner.mid(), MPFR_RNDN), std::max(a.radius, b.radius));
}

}  // namespace

void intersect_range(MpBall& ball, double center, double half_width) {
  if (!ball.is_void() && ball.radius > Scaled::of(half_width)) set_range(ball, center, half_width);
}

void add(MpBall& y, const MpBall& a, const MpBall& b) {
  settle(y, mpfr_add(y.mid(), a.mid(), b.mid(), MPFR_RNDN), add_up(a.radius, b.radius));
}

void subtract(MpBall& y, const MpBall& a, const MpBall& b) {
  settle(y, mpfr_sub(y.mid(), a.mid(), b.mid(), MPFR_RNDN), add_up(a.radius, b.radius));
}

void multiply(MpBall& y, const MpBall& a, const MpBall& b) {
  Scaled radius;
  if (!a.is_exact() || !b.is_exact()) {
    const Scaled reach_b = add_up(Scaled::upper(b.mid()), b.radius);
    radius = add_up(mul_up(Scaled::upper(a.mid()), b.radius), mul_up(a.radius, reach_b));
    if (a.is_unknown() || b.is_unknown()) radius = Scaled::infinite();
  }
  settle(y, mpfr_mul(y.mid(), a.mid(), b.mid(), MPFR_RNDN), radius);
}

void divide(MpBall& y, const MpBall& a, const MpBall& b) {
  if (a.is_void() || b.is_void() || (b.is_exact() && mpfr_zero_p(b.mid()))) return make_void(y);
  const Scaled denominator = lower_magnitude(b);
  if (denominator.is_zero() || b.is_unknown()) return make_unknown(y);
  const int ternary = mpfr_div(y.mid(), a.mid(), b.mid(), MPFR_RNDN);
  Scaled radius;
  if (!a.is_exact() || !b.is_exact()) {
    const Scaled quotient = ternary == 0 ? Scaled::upper(y.mid()) : upper_before_rounding(y);
    radius = div_up(add_up(a.radius, mul_up(quotient, b.radius)), denominator);
  }
  settle(y, ternary, radius);
}

void negate(MpBall& y, const MpBall& x) {
  settle(y, mpfr_neg(y.mid(), x.mid(), MPFR_RNDN), x.radius);
}

void square_root(MpBall& y, const MpBall& x) {
  const bool negative = mpfr_sgn(x.mid()) < 0;
  if (x.is_void() || (negative && Scaled::lower(x.mid()) > x.radius)) return make_void(y);
  if (!certainly_not_negative(x)) return make_unknown(y);
  const Scaled radius = x.is_exact() ? Scaled() : div_up(x.radius, sqrt_down(Scaled::lower(x.mid())));
  settle(y, mpfr_sqrt(y.mid(), x.mid(), MPFR_RNDN), radius);
}

void exponential(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  const int ternary = mpfr_exp(y.mid(), x.mid(), MPFR_RNDN);
  Scaled radius;
  if (!x.is_exact()) radius = mul_up(upper_before_rounding(y), expm1_up(x.radius));
  settle(y, ternary, radius);
}

void sine(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (!has_useful_phase(x)) return set_range(y, 0.0, 1.0);
  settle(y, mpfr_sin(y.mid(), x.mid(), MPFR_RNDN), x.radius);
  intersect_range(y, 0.0, 1.0);
}

void cosine(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (!has_useful_phase(x)) return set_range(y, 0.0, 1.0);
  settle(y, mpfr_cos(y.mid(), x.mid(), MPFR_RNDN), x.radius);
  intersect_range(y, 0.0, 1.0);
}

void hyperbolic_tangent(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  // tanh' = 4 / (e^x + e^-x)^2 <= min(1, 4 e^(-2|x|))
  const Scaled slope = std::min(Scaled::of(1.0), mul_up(Scaled::of(4.0), exp_up(-2.0 * lower_magnitude_as_double(x))));
  settle(y, mpfr_tanh(y.mid(), x.mid(), MPFR_RNDN), scaled_radius(x, slope));
  intersect_range(y, 0.0, 1.0);
}

void error_function(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  // erf' = 2 / sqrt(pi) e^(-x^2)
  const double a = lower_magnitude_as_double(x);
  const Scaled slope = mul_up(Scaled::of(1.1284), std::min(Scaled::of(1.0), exp_up(-mul_down(a, a))));
  if (erf_by_series(y.mid(), x.mid())) {
    settle(y, mpfr_zero_p(x.mid()) ? 0 : 1, scaled_radius(x, slope), relative_error_of_seven);
    return intersect_range(y, 0.0, 1.0);
  }
  if (is_too_close_to_sqrt_3(x.mid())) {
    num::MpfrValue shifted(mpfr_get_prec(x.mid()));
    mpfr_add(shifted.get(), x.mid(), num::MpfrValue(std::ldexp(1.0, step_from_sqrt_3), 53).get(), MPFR_RNDN);
    const Scaled distance = add_up(x.radius, Scaled::power_of_two(step_from_sqrt_3 + 1));
    return settle(y, mpfr_erf(y.mid(), shifted.get(), MPFR_RNDN), mul_up(distance, Scaled::of(1.1284)));
  }
  settle(y, mpfr_erf(y.mid(), x.mid(), MPFR_RNDN), scaled_radius(x, slope));
  intersect_range(y, 0.0, 1.0);
}

void logistic(MpBall& y, const MpBall& x, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  const bool negative = mpfr_sgn(x.mid()) < 0;
  mpfr_ptr t = scratch.mid();  // e^-|x|
  mpfr_abs(t, x.mid(), MPFR_RNDN);
  mpfr_neg(t, t, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  mpfr_add_ui(y.mid(), t, 1, MPFR_RNDN);
  if (negative) {
    mpfr_div(y.mid(), t, y.mid(), MPFR_RNDN);
  } else {
    mpfr_ui_div(y.mid(), 1, y.mid(), MPFR_RNDN);
  }
  const Scaled slope = std::min(Scaled::of(0.25), exp_up(-lower_magnitude_as_double(x)));
  settle(y, 1, scaled_radius(x, slope), relative_error_of_seven);
  intersect_range(y, 0.5, 0.5);
}

void soft_plus(MpBall& y, const MpBall& x, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  mpfr_ptr t = scratch.mid();  // log(1 + e^-|x|)
  mpfr_abs(t, x.mid(), MPFR_RNDN);
  mpfr_neg(t, t, MPFR_RNDN);
  mpfr_exp(t, t, MPFR_RNDN);
  if (mpfr_sgn(x.mid()) < 0) {
    mpfr_log1p(y.mid(), t, MPFR_RNDN);
  } else {
    mpfr_log1p(t, t, MPFR_RNDN);
    mpfr_add(y.mid(), x.mid(), t, MPFR_RNDN);
  }
  const Scaled slope = std::min(Scaled::of(1.0), exp_up(upper_end(x)));  // the logistic function of x
  settle(y, 1, scaled_radius(x, slope), relative_error_of_seven);
}

void gaussian_linear(MpBall& y, const MpBall& x, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  if (x.is_unknown()) return make_unknown(y);
  const Scaled carried = scaled_radius(x, steepest_gaussian_linear(x));
  const mpfr_exp_t exponent = mpfr_zero_p(x.mid()) ? 0 : std::max<mpfr_exp_t>(mpfr_get_exp(x.mid()), 0);
  if (exponent > largest_gaussian_exponent) {
    const bool negative = mpfr_sgn(x.mid()) < 0;
    const int ternary = negative ? (mpfr_set_zero(y.mid(), 1), 0) : mpfr_set(y.mid(), x.mid(), MPFR_RNDN);
    return settle(y, ternary, add_up(carried, least_gaussian));
  }
  num::MpfrValue argument(mpfr_get_prec(y.mid()) + 2 * exponent + 8);
  mpfr_sqrt_ui(argument.get(), 2, MPFR_RNDN);
  mpfr_div(argument.get(), x.mid(), argument.get(), MPFR_RNDN);
  mpfr_neg(argument.get(), argument.get(), MPFR_RNDN);
  Scaled step;
  if (!erfc_by_series(scratch.mid(), argument.get())) {
    if (is_too_close_to_sqrt_3(argument.get())) {
      mpfr_add(argument.get(), argument.get(), num::MpfrValue(std::ldexp(1.0, step_from_sqrt_3), 53).get(), MPFR_RNDN);
      step = Scaled::power_of_two(step_from_sqrt_3 + 3);
    }
    mpfr_erfc(scratch.mid(), argument.get(), MPFR_RNDN);
  }
  mpfr_mul(y.mid(), x.mid(), scratch.mid(), MPFR_RNDN);
  const int ternary = mpfr_div_2ui(y.mid(), y.mid(), 1, MPFR_RNDN);
  settle(y, mpfr_zero_p(x.mid()) ? ternary : 1, add_up(carried, step), relative_error_of_seven);
}

void rectified(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (certainly_not_negative(x)) return assign(y, x);
  if (certainly_not_positive(x)) return assign(y, 0.0);
  if (x.is_unknown()) return make_unknown(y);
  assign(y, x);
  cut_at_zero(y);
}

void leaky_rectified(MpBall& y, const MpBall& x, const MpBall& alpha) {
  if (x.is_void()) return make_void(y);
  if (certainly_not_negative(x)) return assign(y, x);
  if (certainly_not_positive(x)) return multiply(y, x, alpha);
  const Scaled slope = std::max(Scaled::of(1.0), Scaled::upper(alpha.mid()));
  const int ternary = mpfr_sgn(x.mid()) >= 0 ? mpfr_set(y.mid(), x.mid(), MPFR_RNDN)
                                             : mpfr_mul(y.mid(), x.mid(), alpha.mid(), MPFR_RNDN);
  settle(y, ternary, scaled_radius(x, slope));
}

void exponential_linear(MpBall& y, const MpBall& x, const MpBall& alpha, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  if (certainly_not_negative(x)) return assign(y, x);
  const Scaled steepest = Scaled::upper(alpha.mid());
  const bool negative = certainly_not_positive(x);
  const Scaled slope = negative ? mul_up(steepest, std::min(Scaled::of(1.0), exp_up(upper_end(x))))
                                : std::max(Scaled::of(1.0), steepest);
  if (mpfr_sgn(x.mid()) >= 0) return settle(y, mpfr_set(y.mid(), x.mid(), MPFR_RNDN), scaled_radius(x, slope));
  mpfr_expm1(scratch.mid(), x.mid(), MPFR_RNDN);
  mpfr_mul(y.mid(), scratch.mid(), alpha.mid(), MPFR_RNDN);
  settle(y, mpfr_zero_p(alpha.mid()) ? 0 : 1, scaled_radius(x, slope), relative_error_of_seven);
}

void reciprocal(MpBall& y, const MpBall& x) {
  if (x.is_void() || is_exact_zero(x)) return make_void(y);
  const Scaled gap = lower_magnitude(x);
  if (gap.is_zero() || x.is_unknown()) return make_unknown(y);
  const int ternary = mpfr_ui_div(y.mid(), 1, x.mid(), MPFR_RNDN);
  settle(y, ternary, div_up(mul_up(upper_before_rounding(y), x.radius), gap));
}

void logarithm(MpBall& y, const MpBall& x) {
  if (x.is_void() || certainly_not_positive(x)) return make_void(y);
  const Scaled gap = lower_magnitude(x);
  if (mpfr_sgn(x.mid()) <= 0 || gap.is_zero()) return make_unknown(y);
  settle(y, mpfr_log(y.mid(), x.mid(), MPFR_RNDN), div_up(x.radius, gap));
}

void tangent(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (!has_useful_phase(x)) return make_unknown(y);
  const int ternary = mpfr_tan(y.mid(), x.mid(), MPFR_RNDN);
  if (x.is_exact()) return settle(y, ternary, {});
  // |tan(m + h) - tan m| <= t (1 + T^2) / (1 - T t), T = |tan m|, t = tan r <= r / (1 - (2r/pi)^2)
  const Scaled one = Scaled::of(1.0);
  const Scaled at_middle = upper_before_rounding(y);
  const Scaled of_radius = div_up(x.radius, sub_down(one, mul_up(Scaled::of(0.4053), mul_up(x.radius, x.radius))));
  const Scaled from_pole = sub_down(one, mul_up(at_middle, of_radius));
  const Scaled slope = add_up(one, mul_up(at_middle, at_middle));
  if (!of_radius.is_finite() || from_pole.is_zero()) return make_unknown(y);
  settle(y, ternary, div_up(mul_up(of_radius, slope), from_pole));
}

void arctangent(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  const double a = lower_magnitude_as_double(x);
  const Scaled slope = Scaled::of(div_up(1.0, add_down(1.0, mul_down(a, a))));
  settle(y, mpfr_atan(y.mid(), x.mid(), MPFR_RNDN), scaled_radius(x, slope));
  intersect_range(y, 0.0, 1.5708);
}

void hyperbolic_sine(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  const int ternary = mpfr_sinh(y.mid(), x.mid(), MPFR_RNDN);
  // |sinh(m + h) - sinh m| <= cosh m (e^r - 1), cosh m = sinh |m| + e^-|m|
  const double size = Scaled::lower(x.mid()).to_double_down();
  const Scaled cosh = add_up(upper_before_rounding(y), std::min(Scaled::of(1.0), exp_up(-size)));
  settle(y, ternary, mul_up(cosh, expm1_up(x.radius)));
}

void hyperbolic_cosine(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  const int ternary = mpfr_cosh(y.mid(), x.mid(), MPFR_RNDN);
  // |cosh(m + h) - cosh m| <= cosh m min(q, |m| q + q^2 / 2), q = e^r - 1
  const Scaled q = expm1_up(x.radius);
  const Scaled near_zero = add_up(mul_up(Scaled::upper(x.mid()), q), mul_up(Scaled::of(0.5), mul_up(q, q)));
  settle(y, ternary, mul_up(upper_before_rounding(y), std::min(q, near_zero)));
}

void power(MpBall& y, const MpBall& x, double p) {
  if (x.is_void()) return make_void(y);
  if (p == 0.0 || p == 1.0) return p == 0.0 ? assign(y, 1.0) : assign(y, x);
  if (p == -1.0) return reciprocal(y, x);
  if (p == 2.0) return multiply(y, x, x);
  if (p == 0.5) return square_root(y, x);

  const Scaled gap = lower_magnitude(x);  // between the ball and 0
  const bool is_integer = std::trunc(p) == p;
  if (!is_integer && mpfr_sgn(x.mid()) < 0 && !gap.is_zero()) return make_void(y);
  if (!is_integer && !certainly_not_negative(x)) return make_unknown(y);
  if (p < 0.0 && gap.is_zero()) return is_exact_zero(x) ? make_void(y) : make_unknown(y);

  const int ternary = mpfr_pow(y.mid(), x.mid(), num::MpfrValue(p, 53).get(), MPFR_RNDN);
  if (x.is_exact()) return settle(y, ternary, {});
  // The larger of |x|^p and |m|^p is at most that of the end away from 0, for p < 0 of the other end.
  const Scaled logarithmic = mul_up(Scaled::of(std::abs(p)), div_up(x.radius, gap));
  Scaled radius = mul_up(upper_before_rounding(y), expm1_up(logarithmic));
  if (logarithmic > Scaled::of(0.5)) {
    radius = std::min(radius, power_up(p > 0.0 ? add_up(Scaled::upper(x.mid()), x.radius) : gap, p));
  }
  settle(y, ternary, radius);
}

void absolute(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  settle(y, mpfr_abs(y.mid(), x.mid(), MPFR_RNDN), x.radius);
  if (!x.is_unknown() && lower_magnitude(x).is_zero() && !x.is_exact()) cut_at_zero(y);
}

void maximum(MpBall& y, const MpBall& a, const MpBall& b) {
  extremum(y, a, b, 1);
}
void minimum(MpBall& y, const MpBall& a, const MpBall& b) {
  extremum(y, a, b, -1);
}

void floor_function(MpBall& y, const MpBall& x, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  settle(y, mpfr_rint_floor(y.mid(), x.mid(), MPFR_RNDN), {});
  if (!rounds_alike(y, x, 1, scratch)) make_unknown(y);
}
void ceiling_function(MpBall& y, const MpBall& x, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  settle(y, mpfr_rint_ceil(y.mid(), x.mid(), MPFR_RNDN), {});
  if (!rounds_alike(y, x, -1, scratch)) make_unknown(y);
}

// Every point of x rounds to y where it is nearer than 1/2 to it.
void rounding_function(MpBall& y, const MpBall& x, MpBall& scratch) {
  if (x.is_void()) return make_void(y);
  settle(y, mpfr_rint_roundeven(y.mid(), x.mid(), MPFR_RNDN), {});
  if (x.is_exact()) return;
  mpfr_sub(scratch.mid(), x.mid(), y.mid(), MPFR_RNDA);
  if (!(add_up(Scaled::upper(scratch.mid()), x.radius) < Scaled::power_of_two(-1))) make_unknown(y);
}

void is_positive(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (certainly_not_positive(x)) return assign(y, 0.0);
  if (lower_magnitude(x).is_zero()) return make_unknown(y);
  assign(y, 1.0);
}

void is_not_negative(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (certainly_not_negative(x)) return assign(y, 1.0);
  if (lower_magnitude(x).is_zero()) return make_unknown(y);
  assign(y, 0.0);
}

void is_zero(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (is_exact_zero(x)) return assign(y, 1.0);
  if (lower_magnitude(x).is_zero()) return make_unknown(y);
  assign(y, 0.0);
}

void either_of(MpBall& y, const MpBall& a, const MpBall& b) {
  if (a.is_void() || b.is_void()) return make_unknown(y);
  mpfr_sub(y.mid(), a.mid(), b.mid(), MPFR_RNDA);
  const Scaled half_distance = mul_up(Scaled::of(0.5), Scaled::upper(y.mid()));
  const int of_sum = mpfr_add(y.mid(), a.mid(), b.mid(), MPFR_RNDN);
  const int of_half = mpfr_div_2ui(y.mid(), y.mid(), 1, MPFR_RNDN);
  settle(y, of_sum != 0 ? of_sum : of_half, add_up(half_distance, std::max(a.radius, b.radius)));
}

void sign_function(MpBall& y, const MpBall& x) {
  if (x.is_void()) return make_void(y);
  if (is_exact_zero(x)) return assign(y, 0.0);
  if (lower_magnitude(x).is_zero()) return make_unknown(y);
  assign(y, mpfr_sgn(x.mid()) < 0 ? -1.0 : 1.0);
}

}  // namespace driftbound
