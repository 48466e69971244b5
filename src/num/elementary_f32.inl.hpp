// Float32 elementary functions whose results are the same bits on every IEEE-754 machine.
//
// Each function evaluates in double with about 2^-51 relative error and rounds once to float.
// Only + - * /, comparisons, conversions and integer operations are used, so a CPU and a GPU agree
// as long as both round to nearest, keep subnormals, and fuse no multiply with an addition:
// compile with -ffp-contract=off, and under nvcc with --fmad=false and without -use_fast_math,
// which nvcc announces by no macro. docs/elementary.md records the measured accuracy.
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>

#include "num/host_device.hpp"

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

// |x| <= 700. Taylor polynomial of degree 13 on |r| <= ln(2)/2: truncation error below
// 1.3e-17 |e^r - 1|.
DRIFTBOUND_HD inline ReducedExp reduce_exp(double x) {
  constexpr double log2_e = 0x1.71547652b82fep+0;
  constexpr double to_integer = 0x1.8p52;
  const double n = (x * log2_e + to_integer) - to_integer;
  const double r = (x - n * ln2_high) - n * ln2_low;
  const double tail = polynomial(r, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320,
                                 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  return {power_of_two(static_cast<int>(n)), r + r * r * tail};
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

}  // namespace driftbound::f32
