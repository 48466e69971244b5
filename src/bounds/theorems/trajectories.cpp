#include "bounds/theorems/trajectories.hpp"

#include <algorithm>
#include <cmath>

#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {

Magnitude charge(Magnitude local, Magnitude remainder, Magnitude defect) {
  return Magnitude((local.value() + remainder.value() + defect.value()) * (1.0 + 0x1p-51));
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

Magnitude joint_rest(Magnitude residuals, Magnitude rounding_of_slope, Magnitude radius_of_root) {
  return residuals + rounding_of_slope * radius_of_root;
}

double norm_of_row(double by_elements, double propagated) {
  return std::isfinite(by_elements) ? std::min(by_elements, propagated) : by_elements;
}

double reach_of_sums(double radius, double distance) {
  return add_up(radius, distance);
}

double reach_within(double centre, double least, double most) {
  return std::max(sub_up(most, centre), sub_up(centre, least));
}

Magnitude radius_as_read(double radius, Magnitude flushed) {
  return Magnitude(radius) + flushed;
}

double refined_radius(double radius, double by_adjoint) {
  return std::min(radius, by_adjoint);
}

Magnitude ahead(Magnitude by_norm, Magnitude by_elements, Magnitude defect) {
  return std::min(by_norm, by_elements) + defect;
}

Magnitude distance_from_exact(const Ball& computed, const Ball& exact) {
  // Rounded as the errors of reports are, so that an error is not above its own bound by a last digit.
  if (computed.lo == 0.0 && computed.radius == Magnitude()) return error_of(computed.hi, exact).magnitude();
  return (computed - exact).enclosure().magnitude();
}

Magnitude through_shadow(Magnitude from_shadow, double shadow_error) {
  return from_shadow + Magnitude(shadow_error);
}

}  // namespace driftbound::bounds::inline theorems
