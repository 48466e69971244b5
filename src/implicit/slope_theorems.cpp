#include "implicit/slope_theorems.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "bounds/matrices/matrix.hpp"
#include "bounds/theorems/outward.hpp"
#include "driftbound/num/gamma.hpp"

namespace driftbound::implicit::inline theorems {

Magnitude reach(double error, double slope_middle, double slope_radius, double half_width) {
  return Magnitude(error) + (Magnitude(slope_middle) + Magnitude(slope_radius)) * Magnitude(half_width);
}

double product_radius(double computed, std::int64_t terms, bool is_zero) {
  // Underflow of the middle, and of the radius itself.
  return is_zero ? 0.0 : bounds::outward(computed, terms + 1, 2 * terms);
}

double product_gamma(std::int64_t terms) {
  return gamma(terms + 1, 0x1p-53).value();
}

double sum_radius(double a, double b, double middle) {
  return (Magnitude(a) + Magnitude(b) + Magnitude(middle) * Magnitude(0x1p-53)).value();
}

Interval slope_of_larger(const Interval& a, const Interval& b, const Interval& slope_a, const Interval& slope_b) {
  if (a.lower() >= b.upper()) return slope_a;
  return b.lower() >= a.upper() ? slope_b : hull(slope_a, slope_b);
}

namespace {

/// e^(x - shift)
std::vector<Interval> exponentials(std::span<const Interval> x) {
  double shift = -std::numeric_limits<double>::infinity();
  for (const Interval& xi : x) shift = std::max(shift, xi.midpoint());
  std::vector<Interval> e;
  for (const Interval& xi : x) e.push_back(exp(xi - Interval(shift)));
  return e;
}

Interval share(std::span<const Interval> e, std::size_t i) {
  Interval others(0.0);
  for (std::size_t j = 0; j < e.size(); ++j) others += j == i ? Interval(0.0) : e[j];
  const double least = e[i].lower(), most = e[i].upper();
  const bool is_usable = others.is_finite() && e[i].is_finite() && least >= 0.0 && others.lower() >= 0.0;
  if (!is_usable || !(least + others.upper() > 0.0) || !(most + others.lower() > 0.0)) return {0.0, 1.0};
  const double lower = (Interval(least) / (Interval(least) + Interval(others.upper()))).lower();
  const double upper = (Interval(most) / (Interval(most) + Interval(others.lower()))).upper();
  return {std::max(lower, 0.0), std::min(upper, 1.0)};
}

}  // namespace

void slopes_of_softmax(std::span<const Interval> x, std::span<const Interval> s, std::span<Interval> result) {
  const std::vector<Interval> e = exponentials(x);
  std::vector<Interval> p;
  for (std::size_t i = 0; i < x.size(); ++i) p.push_back(share(e, i));
  for (std::size_t i = 0; i < x.size(); ++i) {
    Interval relative(0.0);
    for (std::size_t j = 0; j < x.size(); ++j) relative += j == i ? Interval(0.0) : p[j] * (s[i] - s[j]);
    result[i] = p[i] * relative;
  }
}

Interval newton(double m, const Interval& value, const Interval& slope) {
  return Interval(m) - value / slope;
}

}  // namespace driftbound::implicit::inline theorems
