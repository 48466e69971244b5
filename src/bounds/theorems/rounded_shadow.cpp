#include "bounds/theorems/rounded_shadow.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/theorems/roundings.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_to_nearest(Rounding rounding) {
  return rounding == Rounding::nearest_even || rounding == Rounding::nearest_away;
}

/// All that one number may be rounded to.
Hull roundings_of(double t, const NarrowRounding& how) {
  const Format& format = *how.format;
  const double rounded = round_to(t, format, how.rounding);
  Hull hull{rounded, rounded};
  if (how.ties_are_open && std::isfinite(rounded)) {
    const double below = round_to(t, format, Rounding::down), above = round_to(t, format, Rounding::up);
    if (t - below == above - t) hull = {below, above};
  }
  if (how.may_flush && std::min(std::abs(t), std::abs(rounded)) < format.smallest_normal) {
    hull.lower = std::min(hull.lower, 0.0);
    hull.upper = std::max(hull.upper, 0.0);
  }
  return hull;
}

}  // namespace

Hull hull_rounded(double x, double radius, const NarrowRounding& rounding) {
  if (!std::isfinite(x) || !std::isfinite(radius)) return {-infinity, infinity};
  return {roundings_of(sub_down(x, radius), rounding).lower, roundings_of(add_up(x, radius), rounding).upper};
}

Magnitude largest_rounding(double largest, const NarrowRounding& rounding) {
  const Format& format = *rounding.format;
  if (!is_to_nearest(rounding.rounding) && !(largest <= format.largest)) return Magnitude::infinite();
  const double unit = std::ldexp(is_to_nearest(rounding.rounding) ? 1.0 : 2.0, -format.precision);
  const Magnitude relative(unit * ufp(largest));
  const Magnitude absolute(rounding.may_flush ? format.smallest_normal : format.smallest_subnormal);
  return std::max(relative, absolute);
}

RoundedElement rounded_element(double x, double radius, const Hull& hull, Magnitude largest_rounding) {
  if (!std::isfinite(hull.lower) || !std::isfinite(hull.upper)) return {0.0, infinity, 0.0, infinity, true};
  RoundedElement healed;
  healed.centre = 0.5 * hull.lower + 0.5 * hull.upper;
  healed.radius = std::max(sub_up(hull.upper, healed.centre), sub_up(healed.centre, hull.lower));
  healed.remainder = healed.radius;
  healed.is_ambiguous = hull.lower != hull.upper;
  if (!(largest_rounding.value() < healed.radius)) return healed;
  RoundedElement passed = healed;
  passed.centre = x;
  passed.slope = 1.0;
  passed.remainder = largest_rounding.value();
  const double farthest = std::max({sub_up(hull.upper, x), sub_up(x, hull.lower), 0.0});
  passed.radius = std::min((Magnitude(radius) + largest_rounding).value(), farthest);
  return passed;
}

Magnitude read_otherwise(double x, double radius, Magnitude largest, const Format& format) {
  if (sub_down(std::abs(x), radius) > format.smallest_normal) return Magnitude();
  return std::min(largest, Magnitude(format.smallest_normal));
}

Magnitude rounded_norm(Magnitude by_elements, Magnitude propagated, Magnitude roundings) {
  return std::min(by_elements, propagated + roundings);
}

Magnitude through_rounded_shadow(Magnitude from_rounded_shadow, Magnitude rounded_from_shadow) {
  return from_rounded_shadow + rounded_from_shadow;
}

}  // namespace driftbound::bounds::inline theorems
