#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/theorems/expansions.hpp"
#include "bounds/theorems/tangent.hpp"
#include "num/enclosed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

// Rounded up unless the name says otherwise.
constexpr double third = 0.33333333333333337;
constexpr double two_thirds = 0.66666666666666674;
constexpr double curvature_tanh = 0.769801;     // 4 / (3 sqrt 3)
constexpr double curvature_sigmoid = 0.096226;  // 1 / (6 sqrt 3); the third derivative of softplus as well
constexpr double curvature_erf = 0.967883;      // sqrt(8 / (pi e))
constexpr double curvature_atan = 0.649520;     // 3 sqrt 3 / 8
constexpr double two_over_root_pi = 0x1.20dd750429b6ep+0;
constexpr double two_over_root_pi_down = 0x1.20dd750429b6dp+0;

/// Half e^2 M, M bounding the second derivative.
Magnitude second_order_remainder(Magnitude e, Magnitude curvature) {
  return Magnitude(0.5) * e * e * curvature;
}

/// |f''(x)| + sup |f'''| e / 3.
Magnitude average_curvature(Magnitude at_x, double third_derivative, Magnitude e) {
  return at_x + Magnitude(third_derivative) * Magnitude(third) * e;
}

/// For a curvature that is a convex function of the distance from x.
Magnitude convex_curvature(Magnitude at_x, Magnitude at_e) {
  return Magnitude(two_thirds) * at_x + Magnitude(third) * at_e;
}

/// For a change that is largest where the tangent lies furthest below it.
Magnitude change_less_tangent(Magnitude change, const Enclosure& slope, Magnitude e) {
  const double least = std::max({0.0, slope.lower, -slope.upper});
  return subtract_up(change, mul_down(least, e.value()));
}

/// The slope stays that of smaller radii.
Linear undefined_within_reach(const Point& p, const Enclosure& slope) {
  const double middle = 0.5 * slope.lower + 0.5 * slope.upper;
  return {std::isfinite(p.x) && std::isfinite(p.y) && std::isfinite(middle) ? middle : 0.0, Magnitude::infinite(),
          Magnitude::infinite()};
}

Enclosure times(double factor, const Enclosure& e) {
  if (factor < 0.0) return {mul_down(factor, e.upper), mul_up(factor, e.lower)};
  return {mul_down(factor, e.lower), mul_up(factor, e.upper)};
}

/// 1 - s^2 for 0 <= s <= 1 in the enclosure.
Enclosure one_minus_square(const Enclosure& s) {
  const double high = std::min(1.0, s.upper);
  return {sub_down(1.0, mul_up(high, high)), sub_up(1.0, mul_down(s.lower, s.lower))};
}

/// s (1 - s) for 0 <= s <= 1 in the enclosure.
Enclosure logistic_slope(const Enclosure& s) {
  const double high = std::min(1.0, s.upper);
  const double low_end = mul_down(s.lower, sub_down(1.0, s.lower)), high_end = mul_down(high, sub_down(1.0, high));
  const double top = s.lower > 0.5 ? mul_up(s.lower, sub_up(1.0, s.lower))
                     : high < 0.5  ? mul_up(high, sub_up(1.0, high))
                                   : 0.25;
  return {std::min(low_end, high_end), top};
}

/// e^x. Source: docs/theory.md T-09
Enclosure exponential(double x) {
  return {exp_down(x), exp_up(x)};
}

/// 1 + x^2 for x in the enclosure, which holds magnitudes.
Enclosure one_plus_square(const Enclosure& x) {
  return {add_down(1.0, mul_down(x.lower, x.lower)), add_up(1.0, mul_up(x.upper, x.upper))};
}

Enclosure enclosure_of(const Enclosed& number) {
  return {sub_down(number.value, number.error), add_up(number.value, number.error)};
}

/// sin and cos: where one is stored, the other is the slope and the first the curvature.
Linear oscillation(const Point& p, const Enclosure& slope) {
  const Magnitude curvature = average_curvature(Magnitude(p.y) + p.y_error, 1.0, p.e);
  return along(p, {slope, second_order_remainder(p.e, std::min(Magnitude(1.0), curvature)), Magnitude(1.0)},
               propagate_sin_or_cos);
}

}  // namespace

Linear linear_tanh(const Point& p) {
  const Enclosure size = magnitude_of(p.y, p.y_error);
  const Enclosure slope = one_minus_square(size);
  const Magnitude steepness(slope.upper);
  const Magnitude at_x = Magnitude(2.0) * Magnitude(std::min(1.0, size.upper)) * steepness;
  const Magnitude curvature = std::min(Magnitude(curvature_tanh), average_curvature(at_x, 2.0, p.e));
  const Magnitude decaying = Magnitude(0.5) * steepness * Magnitude(exp_remainder_up((Magnitude(2.0) * p.e).value()));
  return along(p, {slope, std::min(second_order_remainder(p.e, curvature), decaying), Magnitude(1.0)}, propagate_tanh);
}

Linear linear_sigmoid(const Point& p) {
  const Enclosure s = magnitude_of(p.y, p.y_error);
  const Enclosure slope = logistic_slope(s);
  const Magnitude steepness(slope.upper);
  const Magnitude skew =
      std::max(distance_up(1.0, (Magnitude(2.0) * Magnitude(s.upper)).value()), distance_up(1.0, 2.0 * s.lower));
  const Magnitude at_x = steepness * std::min(Magnitude(1.0), skew);
  const Magnitude curvature = std::min(Magnitude(curvature_sigmoid), average_curvature(at_x, 0.125, p.e));
  const Magnitude decaying = steepness * Magnitude(exp_remainder_up(p.e.value()));
  return along(p, {slope, std::min(second_order_remainder(p.e, curvature), decaying), Magnitude(0.25)},
               propagate_sigmoid);
}

Linear linear_softplus(const Point& p) {
  const auto [low, high] = exponential(-std::abs(p.x));
  const double divisor_down = add_down(1.0, low), divisor_up = add_up(1.0, high);
  const Enclosure slope = p.x < 0.0 ? Enclosure{div_down(low, add_up(1.0, low)), div_up(high, add_down(1.0, high))}
                                    : Enclosure{div_down(1.0, divisor_up), div_up(1.0, divisor_down)};
  const Magnitude at_x = divide_up(Magnitude(high), mul_down(divisor_down, divisor_down));
  const Magnitude curvature = std::min(Magnitude(0.25), average_curvature(at_x, curvature_sigmoid, p.e));
  const Magnitude decaying = at_x * Magnitude(exp_remainder_up(p.e.value()));
  return along(p, {slope, std::min(second_order_remainder(p.e, curvature), decaying), Magnitude(1.0)},
               propagate_softplus);
}

Linear linear_sin(const Point& p) {
  return oscillation(p, enclosure_of(enclosed_cos(p.x)));
}

Linear linear_cos(const Point& p) {
  const Enclosure sine = enclosure_of(enclosed_sin(p.x));
  return oscillation(p, {-sine.upper, -sine.lower});
}

Linear linear_exp(const Point& p) {
  const Enclosure y = magnitude_of(p.y, p.y_error);
  const Magnitude bend = Magnitude(y.upper) * Magnitude(exp_remainder_up(p.e.value()));
  return along(p, {y, bend, Magnitude::infinite()}, propagate_exp);
}

Linear linear_erf(const Point& p) {
  const Magnitude x(p.x), two(2.0);
  const double low = mul_down(two_over_root_pi_down, exp_down(-mul_up(p.x, p.x)));
  const double high = mul_up(two_over_root_pi, exp_up(-mul_down(p.x, p.x)));
  const Magnitude at_x = two * x * Magnitude(high);
  const Magnitude decaying = two * Magnitude(high) * (x + p.e) * Magnitude(exp_up((two * x * p.e).value()));
  const Magnitude average = average_curvature(at_x, 2.0 * two_over_root_pi, p.e);
  const Magnitude curvature = std::min({Magnitude(curvature_erf), average, decaying});
  return along(p, {{low, high}, second_order_remainder(p.e, curvature), Magnitude(two_over_root_pi)}, propagate_erf);
}

Linear linear_sqrt(const Point& p) {
  if (!(p.x >= 0.0)) return nowhere();
  const double low = sqrt_down(p.x), lowest = sqrt_down(std::max(0.0, sub_down(p.x, p.e.value())));
  const double sum = add_down(low, lowest);
  const Enclosure slope{div_down(0.5, sqrt_up(p.x)), div_up(0.5, low)};
  if (!(p.e.value() <= p.x)) return undefined_within_reach(p, slope);
  const Magnitude bend = divide_up(second_order_remainder(p.e, Magnitude(1.0)), mul_down(low, mul_down(sum, sum)));
  return along(p, {slope, bend, Magnitude::infinite()}, propagate_sqrt);
}

Linear linear_reciprocal(const Point& p) {
  const double size = std::abs(p.x), nearest = sub_down(size, p.e.value());
  const Enclosure slope{-div_up(1.0, mul_down(size, size)), -div_down(1.0, mul_up(size, size))};
  if (!(nearest > 0.0)) return undefined_within_reach(p, slope);
  const Magnitude bend = divide_up(square(divide_up(p.e, size)), nearest);
  return along(p, {slope, bend, Magnitude::infinite()}, propagate_reciprocal);
}

Linear linear_log(const Point& p) {
  if (!(p.x > 0.0)) return nowhere();
  const double nearest = sub_down(p.x, p.e.value());
  const Enclosure slope{div_down(1.0, p.x), div_up(1.0, p.x)};
  if (!(nearest > 0.0)) return undefined_within_reach(p, slope);
  const Magnitude curvature = convex_curvature(square(divide_up(p.e, p.x)), square(divide_up(p.e, nearest)));
  const Magnitude bend = std::min(Magnitude(0.5) * curvature, change_less_tangent(propagate_log(p), slope, p.e));
  return along(p, {slope, bend, Magnitude::infinite()}, propagate_log);
}

namespace {

/// Functions whose curvature grows with |x| and is convex: `change` away from 0 is the largest.
Linear growing(const Point& p, const Enclosure& slope, Magnitude curvature_at_x, Magnitude curvature_at_e,
               Magnitude (*moved)(const Point&)) {
  const Magnitude bend = second_order_remainder(p.e, convex_curvature(curvature_at_x, curvature_at_e));
  return along(p, {slope, std::min(bend, change_less_tangent(moved(p), slope, p.e)), Magnitude::infinite()}, moved);
}

}  // namespace

Linear linear_tan(const Point& p) {
  const Enclosure tangent = magnitude_of(p.y, p.y_error);
  const auto curvature = [](Magnitude t) { return Magnitude(2.0) * t * (Magnitude(1.0) + t * t); };
  const Magnitude at_x(tangent.upper), at_e = at_x + propagate_tan(p);
  return growing(p, one_plus_square(tangent), curvature(at_x), curvature(at_e), propagate_tan);
}

Linear linear_atan(const Point& p) {
  const Magnitude x(p.x), two(2.0);
  const Enclosure divisor = one_plus_square({std::abs(p.x), std::abs(p.x)});
  const Enclosure slope{div_down(1.0, divisor.upper), div_up(1.0, divisor.lower)};
  const Magnitude at_x = two * x * square(Magnitude(slope.upper));
  const double nearest = std::max(0.0, sub_down(std::abs(p.x), p.e.value()));
  const double least = add_down(1.0, mul_down(nearest, nearest));
  const Magnitude decaying = divide_up(two * (x + p.e), mul_down(least, least));
  const Magnitude curvature = std::min({Magnitude(curvature_atan), average_curvature(at_x, 2.0, p.e), decaying});
  return along(p, {slope, second_order_remainder(p.e, curvature), Magnitude(1.0)}, propagate_atan);
}

Linear linear_sinh(const Point& p) {
  const Enclosure size = magnitude_of(p.y, p.y_error);
  const Enclosure squares = one_plus_square(size);
  const Magnitude at_x(size.upper);
  return growing(p, {sqrt_down(squares.lower), sqrt_up(squares.upper)}, at_x, at_x + propagate_sinh(p), propagate_sinh);
}

Linear linear_cosh(const Point& p) {
  const Enclosure rising = exponential(p.x), falling = exponential(-p.x);
  const Enclosure twice{sub_down(rising.lower, falling.upper), sub_up(rising.upper, falling.lower)};
  const Magnitude at_x(magnitude_of(p.y, p.y_error).upper);
  return growing(p, times(0.5, twice), at_x, at_x + propagate_cosh(p), propagate_cosh);
}

namespace {

/// base^n for any n.
Magnitude any_power_up(double base, double n) {
  if (n == 0.0) return Magnitude(1.0);
  if (n > 0.0) return Magnitude(power_up(base, n));
  return base > 0.0 ? Magnitude(power_up(div_up(1.0, base), -n)) : Magnitude::infinite();
}

bool is_integer(double p) {
  return std::trunc(p) == p;
}

/// |t|^(p - 2) averaged over the distance from x.
Magnitude average_power(const Point& p) {
  const double size = std::abs(p.x), n = p.alpha - 2.0;
  const bool takes_zero = n >= 0.0 && is_integer(p.alpha);
  const double nearest = sub_down(size, p.e.value());
  if (!takes_zero && !(nearest >= 0.0)) return Magnitude::infinite();
  const Magnitude at_x = any_power_up(size, n);
  if (n < 0.0) return convex_curvature(at_x, any_power_up(nearest, n));
  if (n >= 1.0) return convex_curvature(at_x, any_power_up((Magnitude(size) + p.e).value(), n));
  return any_power_up((Magnitude(size) + Magnitude(third) * p.e).value(), n);
}

/// p x^(p - 1) from the stored x^p.
Enclosure power_slope(const Point& p) {
  if (p.alpha == 2.0) return times(2.0, {p.x, p.x});
  if (p.x == 0.0) return {0.0, 0.0};
  const Enclosure y = magnitude_of(p.y, p.y_error);
  const bool is_even = std::fmod(p.alpha, 2.0) == 0.0;
  const double size = std::abs(p.x);
  return times(p.x < 0.0 && is_even ? -p.alpha : p.alpha, {div_down(y.lower, size), div_up(y.upper, size)});
}

}  // namespace

Linear linear_power(const Point& p) {
  if (!std::isfinite(p.x) || !std::isfinite(p.alpha)) return nowhere();
  if (p.alpha == 0.0) return {0.0, Magnitude(), Magnitude()};
  if (p.alpha == 1.0) return {1.0, Magnitude(), Magnitude(1.0)};
  if (!is_integer(p.alpha) && !(p.x >= 0.0)) return nowhere();
  const Enclosure slope = power_slope(p);
  if (!is_integer(p.alpha) && !(p.e.value() <= p.x)) return undefined_within_reach(p, slope);
  const Magnitude factor = Magnitude(p.alpha) * distance_up(p.alpha, 1.0);
  Magnitude bend = second_order_remainder(p.e, factor * average_power(p));
  const bool flattens_toward_zero = p.alpha > 1.0 && p.alpha < 2.0;
  if (!flattens_toward_zero) bend = std::min(bend, change_less_tangent(propagate_power(p), slope, p.e));
  return along(p, {slope, bend, Magnitude::infinite()}, propagate_power);
}

}  // namespace driftbound::bounds::inline theorems
