#include <algorithm>
#include <cmath>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/theorems/expansions.hpp"
#include "bounds/theorems/tangent.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// A piecewise linear function with slopes of at most `steepest`; `bend` is its remainder.
Linear straight(const Point& p, double slope, Magnitude bend, Magnitude steepest) {
  if (!std::isfinite(p.x)) return nowhere();
  const Magnitude steepness(slope);
  if (p.e == Magnitude()) return {slope, Magnitude(), steepness};
  return {slope, bend, std::min(steepest, steepness + divide_up(bend, p.e.value()))};
}

/// max(0, e - d): how far the radius e exceeds the distance d of a kink.
Magnitude beyond(Magnitude e, double d) {
  return subtract_up(e, d);
}

/// A function with jumps: slope 0, and the remainder is the whole change.
Linear flat(const Point& p, Magnitude moved) {
  if (!std::isfinite(p.x)) return nowhere();
  return {0.0, moved, moved};
}

/// Remainder of the function e^t - 1 for t <= 0, t for t > 0, whose derivative is continuous.
Magnitude bend_of_exponential_side(const Point& p) {
  if (p.x > 0.0) return Magnitude(0.5) * square(beyond(p.e, p.x));
  const Magnitude rising = Magnitude(exp_up(p.x)) * Magnitude(exp_remainder_up(p.e.value()));
  return std::min(rising, Magnitude(0.5) * p.e * p.e);
}

}  // namespace

Linear linear_relu(const Point& p) {
  return straight(p, p.x > 0.0 ? 1.0 : 0.0, beyond(p.e, std::abs(p.x)), Magnitude(1.0));
}

Linear linear_leaky_relu(const Point& p) {
  const Magnitude turn = distance_up(1.0, p.alpha);
  return straight(p, p.x > 0.0 ? 1.0 : p.alpha, turn * beyond(p.e, std::abs(p.x)),
                  std::max(Magnitude(1.0), Magnitude(p.alpha)));
}

Linear linear_elu(const Point& p) {
  const Magnitude alpha(p.alpha), kink = distance_up(1.0, p.alpha) * beyond(p.e, std::abs(p.x));
  const double growth_down = exp_down(p.x), growth_up = exp_up(p.x);
  const Enclosure growth = p.alpha < 0.0 ? Enclosure{mul_down(p.alpha, growth_up), mul_up(p.alpha, growth_down)}
                                         : Enclosure{mul_down(p.alpha, growth_down), mul_up(p.alpha, growth_up)};
  const Enclosure slope = p.x > 0.0 ? Enclosure{1.0, 1.0} : growth;
  return along(p, {slope, alpha * bend_of_exponential_side(p) + kink, std::max(Magnitude(1.0), alpha)}, propagate_elu);
}

Linear linear_abs(const Point& p) {
  return straight(p, p.x > 0.0 ? 1.0 : -1.0, Magnitude(2.0) * beyond(p.e, std::abs(p.x)), Magnitude(1.0));
}

Linear linear_clip(const Point& p, double least, double most) {
  const double to_kink = std::min(distance_down(p.x, least), distance_down(p.x, most));
  return straight(p, least < p.x && p.x < most ? 1.0 : 0.0, beyond(p.e, to_kink), Magnitude(1.0));
}

Linear linear_floor(const Point& p) {
  return flat(p, propagate_floor(p));
}

Linear linear_ceil(const Point& p) {
  return flat(p, propagate_ceil(p));
}

Linear linear_round(const Point& p) {
  return flat(p, propagate_round(p));
}

Linear linear_sign(const Point& p) {
  return flat(p, propagate_sign(p));
}

Linear linear_thresholded_relu(const Point& p) {
  if (!std::isfinite(p.x)) return nowhere();
  const bool is_above = p.x > p.alpha;
  const double furthest = is_above ? sub_down(p.x, p.e.value()) : add_up(p.x, p.e.value());
  const bool jumps = is_above ? furthest <= p.alpha : furthest > p.alpha;
  const double slope = is_above ? 1.0 : 0.0;
  if (!jumps) return {slope, Magnitude(), Magnitude(slope)};
  return {slope, std::max(Magnitude(furthest), Magnitude(p.alpha)), Magnitude::infinite()};
}

}  // namespace driftbound::bounds::inline theorems
