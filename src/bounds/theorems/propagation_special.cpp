#include <algorithm>
#include <cmath>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/theorems/propagation.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

Magnitude upper_value(const Point& p) {
  return Magnitude(p.y) + p.y_error;
}

/// Upper bound of log(z + e) - log(z) for every z >= `lowest`; infinite for lowest <= 0.
Magnitude logarithmic_change(Magnitude e, double lowest) {
  if (!(lowest > 0.0)) return Magnitude::infinite();
  return Magnitude(log1p_up(divide_up(e, lowest).value()));
}

/// Upper bounds of sinh(e) and cosh(e) - 1, computed from exp(e) - 1.
struct Hyperbolic {
  Magnitude sinh;
  Magnitude cosh_minus_one;
};

Hyperbolic hyperbolic_of(Magnitude e) {
  const Magnitude q(expm1_up(e.value()));
  const Magnitude share = divide_up(q, add_down(1.0, q.value()));
  return {Magnitude(0.5) * (q + share), Magnitude(0.5) * q * share};
}

/// Upper bound of base^p for p > 0.
Magnitude power_up(Magnitude base, double p) {
  return Magnitude(bounds::power_up(base.value(), p));
}

/// Upper bound of e^(p l) - 1 for p > 0.
Magnitude relative_change(double p, Magnitude l) {
  return Magnitude(expm1_up((Magnitude(p) * l).value()));
}

Magnitude propagate_growing_power(const Point& p) {
  const Magnitude size(p.x);
  const Magnitude from_centre = upper_value(p) * relative_change(p.alpha, logarithmic_change(p.e, size.value()));
  return std::min(from_centre, power_up(size + p.e, p.alpha));
}

Magnitude propagate_root(const Point& p, double lowest) {
  const Magnitude q = relative_change(p.alpha, logarithmic_change(p.e, lowest));
  const Magnitude share = std::min(Magnitude(1.0), divide_up(q, add_down(1.0, q.value())));
  return std::min(upper_value(p) * share, power_up(p.e, p.alpha));
}

Magnitude propagate_falling_power(const Point& p, double lowest) {
  const Magnitude from_centre = upper_value(p) * relative_change(-p.alpha, logarithmic_change(p.e, lowest));
  return std::min(from_centre, power_up(divide_up(Magnitude(1.0), lowest), -p.alpha));
}

/// 0 if a function with jumps is certainly constant within the radius, else infinite.
Magnitude unless_it_jumps(bool same) {
  return same ? Magnitude() : Magnitude::infinite();
}

}  // namespace

Magnitude propagate_log(const Point& p) {
  return logarithmic_change(p.e, sub_down(p.x, p.e.value()));
}

Magnitude propagate_tan(const Point& p) {
  constexpr double pole_factor = 0.4053;  // 4 / pi^2, rounded up
  const Magnitude tangent = upper_value(p);
  const Magnitude of_radius = divide_up(p.e, sub_down(1.0, (Magnitude(pole_factor) * p.e * p.e).value()));
  const double from_pole = sub_down(1.0, (tangent * of_radius).value());
  return divide_up(of_radius * (Magnitude(1.0) + tangent * tangent), from_pole);
}

Magnitude propagate_atan(const Point& p) {
  if (!p.e.is_finite()) return Magnitude::infinite();
  const double size = std::abs(p.x);
  const double divisor = add_down(1.0, mul_down(size, sub_down(size, p.e.value())));
  constexpr double pi = 3.1415926535897936;  // rounded up
  const double change = divisor > 0.0 ? atan_up(divide_up(p.e, divisor).value()) : pi;
  return std::min(p.e, Magnitude(change));
}

Magnitude propagate_sinh(const Point& p) {
  const Magnitude sinh = upper_value(p);
  const Magnitude cosh = sqrt_up(Magnitude(1.0) + sinh * sinh);
  const Hyperbolic step = hyperbolic_of(p.e);
  return sinh * step.cosh_minus_one + cosh * step.sinh;
}

Magnitude propagate_cosh(const Point& p) {
  const Magnitude cosh = upper_value(p);
  const Magnitude sinh = std::min(sqrt_up(subtract_up(cosh, 1.0) * (cosh + Magnitude(1.0))), Magnitude(p.x) * cosh);
  const Hyperbolic step = hyperbolic_of(p.e);
  return cosh * step.cosh_minus_one + sinh * step.sinh;
}

Magnitude propagate_reciprocal(const Point& p) {
  return propagate_quotient(1.0, Magnitude(), p.x, p.e);
}

Magnitude propagate_power(const Point& p) {
  if (!p.e.is_finite() || !std::isfinite(p.alpha)) return Magnitude::infinite();
  if (p.alpha == 0.0) return Magnitude();
  if (p.alpha == 1.0) return p.e;
  if (p.alpha == 2.0) return propagate_product(p.x, p.e, p.x, p.e);
  if (p.alpha == -1.0) return propagate_reciprocal(p);
  const bool takes_negative = std::trunc(p.alpha) == p.alpha;
  if (!takes_negative && !(p.e.value() <= p.x)) return Magnitude::infinite();
  const double lowest = sub_down(std::abs(p.x), p.e.value());  // distance of the reals in question from 0
  if (p.alpha > 1.0) return propagate_growing_power(p);
  if (p.alpha > 0.0) return propagate_root(p, lowest);
  return lowest > 0.0 ? propagate_falling_power(p, lowest) : Magnitude::infinite();
}

Magnitude propagate_abs(const Point& p) {
  return p.e;
}

Magnitude propagate_floor(const Point& p) {
  return unless_it_jumps(std::floor(sub_down(p.x, p.e.value())) == std::floor(add_up(p.x, p.e.value())));
}

Magnitude propagate_ceil(const Point& p) {
  return unless_it_jumps(std::ceil(sub_down(p.x, p.e.value())) == std::ceil(add_up(p.x, p.e.value())));
}

Magnitude propagate_round(const Point& p) {
  return unless_it_jumps(std::rint(sub_down(p.x, p.e.value())) == std::rint(add_up(p.x, p.e.value())));
}

Magnitude propagate_sign(const Point& p) {
  return unless_it_jumps(p.e == Magnitude() || p.e.value() < std::abs(p.x));
}

Magnitude propagate_greater(double a, Magnitude ea, double b, Magnitude eb) {
  const double e = (ea + eb).value();
  return unless_it_jumps(a > b ? e < sub_down(a, b) : e <= sub_down(b, a));
}

Magnitude propagate_greater_or_equal(double a, Magnitude ea, double b, Magnitude eb) {
  return propagate_greater(b, eb, a, ea);
}

Magnitude propagate_equal(double a, Magnitude ea, double b, Magnitude eb) {
  const Magnitude e = ea + eb;
  return unless_it_jumps(e == Magnitude() || e.value() < sub_down(std::max(a, b), std::min(a, b)));
}

bool decides_choice(double c, Magnitude e) {
  return c > 0.5 ? e.value() < sub_down(c, 0.5) : e.value() <= sub_down(0.5, c);
}

Magnitude propagate_choice(bool decides, double taken, Magnitude e_taken, double other, Magnitude e_other) {
  if (decides) return e_taken;
  const Magnitude apart(std::max(sub_up(taken, other), sub_up(other, taken)));
  return std::max(e_taken, apart + e_other);
}

Magnitude propagate_max(double a, Magnitude ea, double b, Magnitude eb) {
  const double largest = std::max(a, b);
  const Magnitude up = std::max(subtract_up(ea, sub_down(largest, a)), subtract_up(eb, sub_down(largest, b)));
  const Magnitude down = std::min(ea + Magnitude(sub_up(largest, a)), eb + Magnitude(sub_up(largest, b)));
  return std::max(up, down);
}

Magnitude propagate_min(double a, Magnitude ea, double b, Magnitude eb) {
  return propagate_max(-a, ea, -b, eb);
}

}  // namespace driftbound::bounds::inline theorems
