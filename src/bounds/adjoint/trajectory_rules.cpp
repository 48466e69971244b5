#include "bounds/adjoint/trajectory_rules.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "bounds/matrix.hpp"

namespace driftbound::bounds {

Magnitude weighted_sum(std::span<const double> d, std::span<const double> x) {
  double sum = 0.0;
  for (std::size_t i = 0; i < d.size(); ++i) sum += std::abs(d[i]) * x[i];
  const auto size = static_cast<std::int64_t>(d.size());
  return Magnitude(outward(sum, size + 1, size));
}

Magnitude charge(Magnitude local, Magnitude remainder, Magnitude defect) {
  return local + remainder + defect;
}

bool same_slopes(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  return a == b;
}

Magnitude moved_by_slope(double slope, double radius) {
  return Magnitude(slope) * Magnitude(radius);
}

Magnitude moved_by_softmax_slopes(double p, double largest_radius) {
  return Magnitude(2.001) * Magnitude(largest_radius) * Magnitude(p);
}

Magnitude remainder_with_cut_edges(double remainder, double moved_by_cut_operands) {
  return Magnitude(remainder) + Magnitude(moved_by_cut_operands);
}

Magnitude defect_of_addition(double sum) {
  return Magnitude(0x1p-53) * Magnitude(sum);
}

double radius_of_element(double by_element, double by_norm) {
  return std::min(by_element, by_norm);
}

double norm_of_row(double by_elements, double handed_on) {
  return std::isfinite(by_elements) ? std::min(by_elements, handed_on) : by_elements;
}

Magnitude radius_as_read(double radius, Magnitude flushed) {
  return Magnitude(radius) + flushed;
}

bool may_overflow(double centre, double radius, double largest) {
  return !((Magnitude(centre) + Magnitude(radius)).value() < largest);
}

double refined_radius(double radius, double by_adjoint) {
  return std::min(radius, by_adjoint);
}

Magnitude through_shadow(Magnitude from_shadow, double shadow_error) {
  return from_shadow + Magnitude(shadow_error);
}

}  // namespace driftbound::bounds
