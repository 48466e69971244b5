// Float32 elementary functions whose results are the same bits on every IEEE-754 machine.
//
// Each function evaluates in double with about 2^-51 relative error and rounds once to float.
// Only + - * /, comparisons, conversions and integer operations are used, so a CPU and a GPU agree
// as long as both round to nearest, keep subnormals, and fuse no multiply with an addition:
// compile with -ffp-contract=off, and under nvcc with --fmad=false and without -use_fast_math,
// which nvcc announces by no macro. docs/elementary.md records the measured accuracy.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "num/host_device.hpp"
#include "num/ieee.inl.hpp"

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "driftbound's elementary functions need IEEE semantics: compile without -ffast-math"
#endif
#if !defined(FLT_EVAL_METHOD) || FLT_EVAL_METHOD != 0
#error "driftbound's elementary functions need arithmetic without excess precision (FLT_EVAL_METHOD == 0)"
#endif

namespace driftbound::f32 {

namespace detail {

static_assert(sizeof(float) == 4 && FLT_MANT_DIG == 24 && sizeof(double) == 8 && DBL_MANT_DIG == 53,
              "float and double must be IEEE-754 binary32 and binary64");

DRIFTBOUND_HD inline std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

DRIFTBOUND_HD inline std::uint64_t bits_of(double x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

DRIFTBOUND_HD inline float float_from(std::uint32_t bits) {
  float x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

DRIFTBOUND_HD inline double double_from(std::uint64_t bits) {
  double x = 0;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

constexpr std::uint32_t sign_bit = 0x80000000u;
constexpr std::uint32_t infinity_bits = 0x7f800000u;
constexpr std::uint32_t nan_bits = 0x7fc00000u;

DRIFTBOUND_HD inline float infinity() {
  return float_from(infinity_bits);
}
// One fixed pattern, because the NaN that hardware generates differs between machines.
DRIFTBOUND_HD inline float nan() {
  return float_from(nan_bits);
}

DRIFTBOUND_HD inline bool is_nan(float x) {
  return x != x;
}
DRIFTBOUND_HD inline bool is_infinite(float x) {
  return (bits_of(x) & ~sign_bit) == infinity_bits;
}
DRIFTBOUND_HD inline float magnitude(float x) {
  return float_from(bits_of(x) & ~sign_bit);
}
DRIFTBOUND_HD inline double lesser(double x, double y) {
  return x < y ? x : y;
}

DRIFTBOUND_HD inline float times_sign_of(float value, float x) {
  return float_from(bits_of(value) ^ (bits_of(x) & sign_bit));
}

// c0 + c1 x + c2 x^2 + ... by Horner's rule.
DRIFTBOUND_HD inline double polynomial(double, double c0) {
  return c0;
}

template <typename... Rest>
DRIFTBOUND_HD inline double polynomial(double x, double c0, Rest... rest) {
  return c0 + x * polynomial(x, rest...);
}

// ln2_high has 32 fraction bits, so its product with any exponent here is exact.
constexpr double ln2_high = 0x1.62e42feep-1;
constexpr double ln2_low = 0x1.a39ef35793c76p-33;

// 2^n for -1022 <= n <= 1023.
DRIFTBOUND_HD inline double power_of_two(int n) {
  return double_from(static_cast<std::uint64_t>(n + 1023) << 52);
}

// e^x = scale * (1 + expm1), scale a power of two.
struct ReducedExp {
  double scale;
  double expm1;
};

// x = n log(2) + r, |r| <= ln(2)/2 (to rounding), for |x| <= 700.
struct ReducedExponent {
  double n;
  double r;
};

DRIFTBOUND_HD inline ReducedExponent reduce_exponent(double x) {
  constexpr double log2_e = 0x1.71547652b82fep+0;
  constexpr double to_integer = 0x1.8p52;
  const double n = (x * log2_e + to_integer) - to_integer;
  return {n, (x - n * ln2_high) - n * ln2_low};
}

// Taylor polynomial of degree 13 on |r| <= ln(2)/2: truncation error below 1.3e-17 |e^r - 1|.
DRIFTBOUND_HD inline ReducedExp exp_of_parts(double n, double r) {
  const double tail = polynomial(r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  return {power_of_two(static_cast<int>(n)), r + r * r * tail};
}

// |x| <= 700.
DRIFTBOUND_HD inline ReducedExp reduce_exp(double x) {
  const ReducedExponent reduced = reduce_exponent(x);
  return exp_of_parts(reduced.n, reduced.r);
}

DRIFTBOUND_HD inline double exp_double(double x) {
  const ReducedExp e = reduce_exp(x);
  return e.scale * (1.0 + e.expm1);
}

DRIFTBOUND_HD inline double expm1_double(double x) {
  const ReducedExp e = reduce_exp(x);
  return e.scale * e.expm1 + (e.scale - 1.0);
}

// w = 2^exponent * significand, sqrt(1/2) < significand <= sqrt(2).
struct SplitDouble {
  int exponent;
  double significand;
};

DRIFTBOUND_HD inline SplitDouble split(double w) {
  constexpr double sqrt_2 = 0x1.6a09e667f3bcdp+0;
  constexpr std::uint64_t fraction_mask = 0x000fffffffffffffu;
  constexpr std::uint64_t exponent_of_one = 0x3ff0000000000000u;
  const std::uint64_t bits = bits_of(w);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  const double significand = double_from((bits & fraction_mask) | exponent_of_one);
  if (significand > sqrt_2) return {exponent + 1, 0.5 * significand};
  return {exponent, significand};
}

// log(1 + f) + n log(2), sqrt(1/2) < 1 + f <= sqrt(2).
// With s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + 2s^2/3 + 2s^4/5 + ...).
// |s| <= 0.1716; stopping at s^20 leaves an error below 3e-19 |log(1 + f)|.
DRIFTBOUND_HD inline double log_of_parts(double f, int n) {
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double series =
      z * polynomial(z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21);
  const double half_square = 0.5 * f * f;
  const double low = s * (half_square + series) + n * ln2_low;
  return n * ln2_high - ((half_square - low) - f);
}

// y > -1. Near 0 the logarithm is taken of y itself; elsewhere the rounding of 1 + y is harmless,
// because |log(1 + y)| > 0.34.
DRIFTBOUND_HD inline double log1p_double(double y) {
  const SplitDouble parts = split(1.0 + y);
  return log_of_parts(parts.exponent == 0 ? y : parts.significand - 1.0, parts.exponent);
}

// |r| <= pi/4. Taylor polynomial through r^17: truncation error below 9e-20 |sin r|.
DRIFTBOUND_HD inline double sin_near_zero(double r) {
  const double z = r * r;
  return r + r * z *
                 polynomial(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                            -1.0 / 1307674368000, 1.0 / 355687428096000);
}

// |r| <= pi/4. Taylor polynomial through r^16: truncation error below 3e-18.
DRIFTBOUND_HD inline double cos_near_zero(double r) {
  const double z = r * r;
  return (1.0 - 0.5 * z) + z * z *
                               polynomial(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                                          -1.0 / 87178291200, 1.0 / 20922789888000);
}

// x = (quarter_turns + 4 k) pi/2 + angle for some integer k, |angle| <= pi/4 (to rounding).
struct ReducedAngle {
  std::uint32_t quarter_turns;
  double angle;
};

constexpr float quarter_pi = 0x1.921fb6p-1f;

// Payne and Hanek: x = M 2^e with a 24-bit integer M >= 2^23, quarter_pi <= x < infinity.
// The bits of 2/pi of weight 2^(2-e) and more only add multiples of 4 to x * 2/pi and are left out;
// the next 128 bits give x * 2/pi mod 4 with an absolute error below 2^-102.
DRIFTBOUND_HD inline ReducedAngle reduce_large_angle(float x) {
  constexpr std::uint32_t two_over_pi[] = {0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
                                           0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u};
  constexpr double half_pi = 0x1.921fb54442d18p+0;
  const std::uint32_t biased_exponent = bits_of(x) >> 23;
  const std::uint64_t significand = (bits_of(x) & 0x007fffffu) | 0x00800000u;

  const std::uint32_t first_bit = biased_exponent - 120;
  const std::uint32_t first_word = first_bit / 32;
  const std::uint32_t shift = first_bit % 32;
  std::uint32_t product[4];
  std::uint64_t carry = 0;
  for (std::uint32_t i = 4; i-- > 0;) {
    const std::uint64_t pair =
        (static_cast<std::uint64_t>(two_over_pi[first_word + i]) << 32) | two_over_pi[first_word + i + 1];
    const std::uint64_t window = (pair >> (32 - shift)) & 0xffffffffu;
    const std::uint64_t sum = significand * window + carry;
    product[i] = static_cast<std::uint32_t>(sum);
    carry = sum >> 32;
  }

  // 128-bit fixed point with two integer bits.
  const std::uint64_t high = (static_cast<std::uint64_t>(product[0]) << 32) | product[1];
  const std::uint64_t low = (static_cast<std::uint64_t>(product[2]) << 32) | product[3];
  const std::uint64_t turns = (high + (std::uint64_t{1} << 61)) >> 62;
  const auto signed_high = static_cast<std::int64_t>(high - (turns << 62));
  const double fraction = static_cast<double>(signed_high) * 0x1p-62 + static_cast<double>(low) * 0x1p-126;
  return {static_cast<std::uint32_t>(turns), fraction * half_pi};
}

// Finite x >= 0.
DRIFTBOUND_HD inline ReducedAngle reduce_angle(float x) {
  if (x < quarter_pi) return {0, x};
  return reduce_large_angle(x);
}

// x >= 0, infinity included. For x > 1, atan(x) = pi/2 - atan(1/x). On [0, 1], with k/8 next to t,
// atan(t) = atan(k/8) + atan(z), z = (t - k/8) / (1 + t k/8), |z| <= 1/16; Taylor polynomial through z^15: truncation
// error below 3e-21 |z|.
DRIFTBOUND_HD inline double atan_double(double x) {
  constexpr double half_pi = 0x1.921fb54442d18p+0;
  constexpr double atan_of_eighths[] = {0.0,
                                        0x1.fd5ba9aac2f6ep-4,
                                        0x1.f5b75f92c80ddp-3,
                                        0x1.6f61941e4def1p-2,
                                        0x1.dac670561bb4fp-2,
                                        0x1.1e00babdefeb4p-1,
                                        0x1.4978fa3269ee1p-1,
                                        0x1.700a7c5784634p-1,
                                        0x1.921fb54442d18p-1};
  const double t = x > 1.0 ? 1.0 / x : x;
  const int k = static_cast<int>(8.0 * t + 0.5);
  const double c = 0.125 * k;
  const double z = (t - c) / (1.0 + t * c);
  const double w = z * z;
  const double tail = z * w * polynomial(w, -1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9, -1.0 / 11, 1.0 / 13, -1.0 / 15);
  const double value = atan_of_eighths[k] + (z + tail);
  return x > 1.0 ? half_pi - value : value;
}

// sin(angle + quarter_turns pi/2), quarter_turns counted mod 4.
DRIFTBOUND_HD inline float sin_of_reduced(std::uint32_t quarter_turns, double angle) {
  const double value = (quarter_turns & 1u) != 0 ? cos_near_zero(angle) : sin_near_zero(angle);
  return static_cast<float>((quarter_turns & 2u) != 0 ? -value : value);
}

// 0 <= x <= 1. Taylor polynomial through x^35: truncation error below 5e-18 erf(x).
DRIFTBOUND_HD inline double erf_below_one(double x) {
  constexpr double two_over_sqrt_pi = 0x1.20dd750429b6dp+0;
  return two_over_sqrt_pi * x *
         polynomial(x * x, 1.0, -1.0 / 3, 1.0 / 10, -1.0 / 42, 1.0 / 216, -1.0 / 1320, 1.0 / 9360, -1.0 / 75600,
                    1.0 / 685440, -1.0 / 6894720, 1.0 / 76204800, -1.0 / 918086400, 1.0 / 11975040000,
                    -1.0 / 168129561600, 1.0 / 2528170444800, -1.0 / 40537905408000, 1.0 / 690452066304000,
                    -1.0 / 12449059983360000);
}

// 1 <= x <= 4. The polynomial interpolates e^(x^2) (1 - erf(x)) in t = (x - 2) / (x + 2) at the
// Chebyshev nodes of [-1/3, 1/3]; with the coefficients rounded to double the error is below
// 5e-17 erf(x).
DRIFTBOUND_HD inline double erf_from_one_to_four(double x) {
  const double t = (x - 2.0) / (x + 2.0);
  const double scaled_complement =
      polynomial(t, 0x1.058671b52c778p-2, -0x1.b57034efd3f72p-2, 0x1.eeea7dc8a6d5dp-3, -0x1.437f0b68c127ep-4,
                 0x1.e94715b126e34p-9, 0x1.ca95ed56db856p-8, -0x1.bc25ba110946cp-11, -0x1.016b5ff6e40e4p-10,
                 0x1.6d81c51237215p-15, 0x1.6dabf1c8b4ef3p-13, 0x1.ca30a0112e14fp-16, -0x1.cfc28643b647ep-16,
                 -0x1.a4e29593a5477p-17, 0x1.e6977cd1898fcp-20);
  return 1.0 - exp_double(-x * x) * scaled_complement;
}

// The largest float whose exponential is below 2^128.
constexpr float exp_overflow = 0x1.62e42ep+6f;

// Rounds to float; conversions beyond the range of float are none of C++'s.
DRIFTBOUND_HD inline float rounded(double value) {
  constexpr double overflow = 0x1.ffffffp+127;  // the middle between the largest float and 2^128
  return value >= overflow ? infinity() : static_cast<float>(value);
}

// high + low, |low| at most about an ulp of high.
struct DoublePair {
  double high;
  double low;
};

// a + b exactly for |a| >= |b| or a = 0 (Dekker).
DRIFTBOUND_HD inline DoublePair exact_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// x = high + low exactly, high of 26 bits, for |x| < 2^990 (Veltkamp).
DRIFTBOUND_HD inline DoublePair halves(double x) {
  const double scaled = 0x1.0000002p+27 * x;
  const double high = scaled - (scaled - x);
  return {high, x - high};
}

// a b exactly, but for underflow (Dekker).
DRIFTBOUND_HD inline DoublePair exact_product(double a, double b) {
  const double product = a * b;
  const DoublePair x = halves(a);
  const DoublePair y = halves(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

// log(x) for finite x > 0, with a relative error of about 2^-58. As log_of_parts, but 2 atanh(s) = 2 s + 2 s^3/3 + ...
// with f and 2 + f exact (x has 24 bits) and s to twice the precision.
DRIFTBOUND_HD inline DoublePair precise_log(float x) {
  const SplitDouble parts = split(x);
  const double f = parts.significand - 1.0;
  const double divisor = 2.0 + f;
  const double s = f / divisor;
  const DoublePair s_halves = halves(s);
  const double s_low = ((f - s_halves.high * divisor) - s_halves.low * divisor) / divisor;
  const double z = s * s;
  const double series = s * z *
                        polynomial(z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17,
                                   2.0 / 19, 2.0 / 21, 2.0 / 23);
  const DoublePair sum = exact_sum(parts.exponent * ln2_high, 2.0 * s);
  return exact_sum(sum.high, sum.low + (2.0 * s_low + (series + parts.exponent * ln2_low)));
}

// x^p for finite x > 0 and |p| < 2^40, within the range of float and a little beyond.
DRIFTBOUND_HD inline double pow_double(float x, double p) {
  const DoublePair log = precise_log(x);
  const DoublePair product = exact_product(p, log.high);
  if (product.high > 90.0) return 0x1p128;
  if (product.high < -110.0) return 0.0;
  const ReducedExponent reduced = reduce_exponent(product.high);
  const double low = product.low + p * log.low;
  const ReducedExp e = exp_of_parts(reduced.n, reduced.r + low);
  return e.scale * (1.0 + e.expm1);
}

// x^n for 2 <= n <= 8, from the left: where the result has at most 25 bits, no product is rounded.
DRIFTBOUND_HD inline double small_power(double x, int n) {
  double power = 1.0;
  for (int bit = 8; bit > 0; bit /= 2) {
    power = power * power;
    if ((n & bit) != 0) power = power * x;
  }
  return power;
}

DRIFTBOUND_HD inline bool is_integer(double p) {
  if (p >= 0x1p53 || p <= -0x1p53) return true;
  return static_cast<double>(static_cast<std::int64_t>(p)) == p;
}
DRIFTBOUND_HD inline bool is_odd_integer(double p) {
  if (!(p < 0x1p53 && p > -0x1p53) || !is_integer(p)) return false;
  return static_cast<std::int64_t>(p) % 2 != 0;
}

// x^p for 0 < x < infinity and p neither 0 nor NaN.
DRIFTBOUND_HD inline float pow_of_positive(float x, double p) {
  constexpr double enough = 0x1p40;  // no float but 1 stays within range so far out
  if (x == 1.0f) return 1.0f;
  if (p >= enough || p <= -enough) return (x > 1.0f) == (p > 0.0) ? infinity() : 0.0f;
  if (p == 1.0) return x;
  if (p == -1.0) return 1.0f / x;
  if (p == 0.5) return ieee::square_root(x);
  const double size = p < 0.0 ? -p : p;
  if (size <= 8.0 && is_integer(p)) {
    const double power = small_power(x, static_cast<int>(size));
    return rounded(p < 0.0 ? 1.0 / power : power);
  }
  return rounded(pow_double(x, p));
}

}  // namespace detail

DRIFTBOUND_HD inline float exp(float x) {
  if (detail::is_nan(x)) return detail::nan();
  if (x > detail::exp_overflow) return detail::infinity();
  if (x < -110.0f) return 0.0f;
  return static_cast<float>(detail::exp_double(x));
}

DRIFTBOUND_HD inline float expm1(float x) {
  if (detail::is_nan(x)) return detail::nan();
  if (x == 0.0f) return x;
  if (x > detail::exp_overflow) return detail::infinity();
  if (x < -40.0f) return -1.0f;
  return static_cast<float>(detail::expm1_double(x));
}

DRIFTBOUND_HD inline float log(float x) {
  if (detail::is_nan(x) || x < 0.0f) return detail::nan();
  if (x == 0.0f) return -detail::infinity();
  if (detail::is_infinite(x)) return x;
  const detail::SplitDouble parts = detail::split(x);
  return static_cast<float>(detail::log_of_parts(parts.significand - 1.0, parts.exponent));
}

DRIFTBOUND_HD inline float log1p(float x) {
  if (detail::is_nan(x) || x < -1.0f) return detail::nan();
  if (x == -1.0f) return -detail::infinity();
  if (x == 0.0f || detail::is_infinite(x)) return x;
  return static_cast<float>(detail::log1p_double(x));
}

DRIFTBOUND_HD inline float tanh(float x) {
  if (detail::is_nan(x)) return detail::nan();
  const double a = detail::lesser(detail::magnitude(x), 20.0);
  const double m = detail::expm1_double(2.0 * a);
  return detail::times_sign_of(static_cast<float>(m / (m + 2.0)), x);
}

// 1 / (1 + e^-x).
DRIFTBOUND_HD inline float sigmoid(float x) {
  if (detail::is_nan(x)) return detail::nan();
  const double e = detail::exp_double(-detail::lesser(detail::magnitude(x), 110.0));
  return static_cast<float>((x < 0.0f ? e : 1.0) / (1.0 + e));
}

// log(1 + e^x).
DRIFTBOUND_HD inline float softplus(float x) {
  if (detail::is_nan(x)) return detail::nan();
  const double e = detail::exp_double(-detail::lesser(detail::magnitude(x), 110.0));
  return static_cast<float>((x < 0.0f ? 0.0 : x) + detail::log1p_double(e));
}

DRIFTBOUND_HD inline float sin(float x) {
  if (detail::is_nan(x) || detail::is_infinite(x)) return detail::nan();
  const detail::ReducedAngle reduced = detail::reduce_angle(detail::magnitude(x));
  return detail::times_sign_of(detail::sin_of_reduced(reduced.quarter_turns, reduced.angle), x);
}

DRIFTBOUND_HD inline float cos(float x) {
  if (detail::is_nan(x) || detail::is_infinite(x)) return detail::nan();
  const detail::ReducedAngle reduced = detail::reduce_angle(detail::magnitude(x));
  return detail::sin_of_reduced(reduced.quarter_turns + 1u, reduced.angle);
}

DRIFTBOUND_HD inline float erf(float x) {
  if (detail::is_nan(x)) return detail::nan();
  const double a = detail::lesser(detail::magnitude(x), 4.0);
  const double value = a < 1.0 ? detail::erf_below_one(a) : detail::erf_from_one_to_four(a);
  return detail::times_sign_of(static_cast<float>(value), x);
}

DRIFTBOUND_HD inline float tan(float x) {
  if (detail::is_nan(x) || detail::is_infinite(x)) return detail::nan();
  const detail::ReducedAngle reduced = detail::reduce_angle(detail::magnitude(x));
  const double sine = detail::sin_near_zero(reduced.angle);
  const double cosine = detail::cos_near_zero(reduced.angle);
  const double value = (reduced.quarter_turns & 1u) != 0 ? -cosine / sine : sine / cosine;
  return detail::times_sign_of(static_cast<float>(value), x);
}

DRIFTBOUND_HD inline float atan(float x) {
  if (detail::is_nan(x)) return detail::nan();
  return detail::times_sign_of(static_cast<float>(detail::atan_double(detail::magnitude(x))), x);
}

DRIFTBOUND_HD inline float sinh(float x) {
  if (detail::is_nan(x)) return detail::nan();
  const double m = detail::expm1_double(detail::lesser(detail::magnitude(x), 100.0));
  return detail::times_sign_of(detail::rounded(0.5 * (m + m / (m + 1.0))), x);
}

DRIFTBOUND_HD inline float cosh(float x) {
  if (detail::is_nan(x)) return detail::nan();
  const double e = detail::exp_double(detail::lesser(detail::magnitude(x), 100.0));
  return detail::rounded(0.5 * (e + 1.0 / e));
}

// x^p with the special values of IEEE 754 pow: 1 for p = 0 and for x = 1, whatever the other is.
DRIFTBOUND_HD inline float pow(float x, double p) {
  if (p == 0.0 || x == 1.0f) return 1.0f;
  if (detail::is_nan(x) || p != p) return detail::nan();
  const float size = detail::magnitude(x);
  const bool negative = (detail::bits_of(x) & detail::sign_bit) != 0;
  if (negative && !detail::is_integer(p) && x != 0.0f && !detail::is_infinite(x)) return detail::nan();
  float power = 0.0f;
  if (size == 0.0f || detail::is_infinite(size)) {
    power = (size == 0.0f) == (p > 0.0) ? 0.0f : detail::infinity();
  } else {
    power = detail::pow_of_positive(size, p);
  }
  return negative && detail::is_odd_integer(p) ? -power : power;
}

}  // namespace driftbound::f32
