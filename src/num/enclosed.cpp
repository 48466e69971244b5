#include "num/enclosed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "driftbound/num/directed.hpp"
#include "num/elementary_f32.inl.hpp"

namespace driftbound {
namespace {

constexpr double unit = 0x1p-53;

/// The kernels take squares and cubes of x; none underflows from here on.
bool is_covered(double x, double lowest, double highest) {
  constexpr double least = 0x1p-500;
  return x >= lowest && x <= highest && (std::abs(x) >= least || x == 0.0);
}

/// The interval's way, for arguments that no kernel covers.
template <class F>
Enclosed in_intervals(double x, F f) {
  return std::isfinite(x) ? enclosed(f(Interval(x))) : Enclosed{0.0, std::numeric_limits<double>::infinity()};
}

Enclosed relative(double value, double units) {
  return {value, std::abs(value) * (units * unit)};
}

/// log(1 + x) = 2 (s + s^3/3 + s^5/5 + ...), s = x / (2 + x), for |s| <= 1/3.
double approx_log1p(double x) {
  const double s = x / (2.0 + x), z = s * s, twice = 2.0 * s;
  return twice + twice * z *
                     f32::detail::polynomial(z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15,
                                             1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23, 1.0 / 25, 1.0 / 27, 1.0 / 29,
                                             1.0 / 31, 1.0 / 33);
}

/// x = quarter_turns pi/2 + angle.
struct Angle {
  double quarter_turns, angle;
};

/// The first two parts of pi/2 have 33 bits: their products with fewer than 2^20 turns are exact.
Angle reduced(double x) {
  constexpr double two_over_pi = 0x1.45f306dc9c883p-1, to_integer = 0x1.8p52;
  constexpr double high = 0x1.921fb544p+0, middle = 0x1.0b4611a6p-34, low = 0x1.3198a2e037073p-69;
  const double n = (x * two_over_pi + to_integer) - to_integer;
  return {n, ((x - n * high) - n * middle) - n * low};
}

/// sin(angle + (quarter_turns + more) pi/2)
double sine_of(Angle a, int more) {
  const int turns = static_cast<int>(a.quarter_turns) + more;
  const double value = (turns & 1) != 0 ? f32::detail::cos_near_zero(a.angle) : f32::detail::sin_near_zero(a.angle);
  return (turns & 2) != 0 ? -value : value;
}

constexpr double most_turns = 0x1p20;
constexpr double most_exponent = 700.0;  // where e^-|x| and its half stay normal numbers

}  // namespace

Enclosed enclosed(const Interval& x) {
  if (!x.is_finite()) return {0.0, std::numeric_limits<double>::infinity()};
  const double middle = x.midpoint();
  return {middle, std::max(sub_up(x.upper(), middle), sub_up(middle, x.lower()))};
}

Enclosed enclosed_exp(double x) {
  if (x == 0.0) return {1.0, 0.0};
  if (!is_covered(x, -708.0, 709.0)) return in_intervals(x, [](const Interval& at) { return exp(at); });
  return relative(f32::detail::exp_double(x), 2.0);
}

Enclosed enclosed_expm1(double x) {
  if (!is_covered(x, -708.0, 709.0)) return in_intervals(x, [](const Interval& at) { return expm1(at); });
  return relative(f32::detail::expm1_double(x), 8.0);
}

Enclosed enclosed_tanh(double x) {
  if (!is_covered(x, -350.0, 350.0)) return in_intervals(x, [](const Interval& at) { return tanh(at); });
  const double decrease = f32::detail::expm1_double(-2.0 * std::abs(x));
  return relative(std::copysign(decrease / (2.0 + decrease), x), 6.0);
}

Enclosed enclosed_sigmoid(double x) {
  if (!is_covered(x, -most_exponent, most_exponent)) {
    return in_intervals(x, [](const Interval& at) { return Interval(1.0) / (Interval(1.0) + exp(-at)); });
  }
  const double e = f32::detail::exp_double(-std::abs(x));
  return relative((x < 0.0 ? e : 1.0) / (1.0 + e), 4.0);
}

Enclosed enclosed_softplus(double x) {
  if (!is_covered(x, -most_exponent, most_exponent)) {
    return in_intervals(x, [](const Interval& at) { return max(at, Interval(0.0)) + log1p(exp(min(at, -at))); });
  }
  const Enclosed small = relative(approx_log1p(f32::detail::exp_double(-std::abs(x))), 8.0);
  if (x < 0.0) return small;
  const Enclosed sum = relative(x + small.value, 1.0);
  return {sum.value, sum.error + small.error};
}

Enclosed enclosed_sin(double x) {
  if (!is_covered(x, -most_turns, most_turns)) return in_intervals(x, [](const Interval& at) { return sin(at); });
  const Angle a = reduced(x);
  const double value = sine_of(a, 0);
  return a.quarter_turns == 0.0 ? relative(value, 2.5) : Enclosed{value, 2.5 * unit};
}

Enclosed enclosed_cos(double x) {
  if (x == 0.0) return {1.0, 0.0};
  if (!is_covered(x, -most_turns, most_turns)) return in_intervals(x, [](const Interval& at) { return cos(at); });
  return {sine_of(reduced(x), 1), 2.5 * unit};
}

Enclosed enclosed_erf(double x) {
  if (!is_covered(x, -1.0, 1.0)) return in_intervals(x, [](const Interval& at) { return erf(at); });
  return relative(f32::detail::erf_below_one(x), 10.0);
}

}  // namespace driftbound
