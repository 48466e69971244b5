#pragma once

#include <span>
#include <vector>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

// What bounds by two trajectories do with radii, local errors, remainders and defects. Guarantee: proven, rounded up.

/// sum |d_i| x_i; an infinite x counts where d is 0 too.
/// Source:    docs/theory.md T-60
Magnitude weighted_sum(std::span<const double> d, std::span<const double> x);

/// |d|.sigma + |d|.kappa + tau.E of one value.
/// Source:    docs/theory.md T-60
Magnitude charge(Magnitude local, Magnitude remainder, Magnitude defect);

/// Whether a remainder is that of the slopes which the adjoint was made with, by operand.
/// Source:    docs/theory.md T-60
bool same_slopes(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b);

/// |s| E: what an operand of slope s moves.
/// Source:    docs/theory.md T-60, T-62
Magnitude moved_by_slope(double slope, double radius);

/// What any operand of a softmax off by at most E moves an element p of it, by the Jacobian at the centre: 2 p E, p < 1
/// + 10^-3 stored. Source:    docs/theory.md T-62
Magnitude moved_by_softmax_slopes(double p, double largest_radius);

/// kappa of a node whose operands that do not depend on the inputs are not followed back.
/// Source:    docs/theory.md T-60, cutting an edge
Magnitude remainder_with_cut_edges(double remainder, double moved_by_cut_operands);

/// What one addition of shares of d adds to the defect: w |sum|.
/// Source:    docs/theory.md T-64
Magnitude defect_of_addition(double sum);

/// The smaller of an element's own radius and the norm of its row.
/// Source:    docs/theory.md T-62
double radius_of_element(double by_element, double by_norm);

/// The smaller of the norm of a row's radii and the norm handed on; the first where it is infinite.
/// Source:    docs/theory.md T-62
double norm_of_row(double by_elements, double handed_on);

/// What an operand that may be read as 0 is off by: E + omega.
/// Source:    docs/theory.md T-61
Magnitude radius_as_read(double radius, Magnitude flushed);

/// Whether a run's value may be beyond the largest number of its formats.
/// Source:    docs/theory.md T-22, T-62
bool may_overflow(double centre, double radius, double largest);

/// The smaller of a radius and the one that an adjoint of its own gives.
/// Source:    docs/theory.md T-72
double refined_radius(double radius, double by_adjoint);

/// Distance from the exact network: that from the shadow and the shadow's own.
/// Source:    docs/theory.md T-70, T-71
Magnitude through_shadow(Magnitude from_shadow, double shadow_error);

/// The part of Rules (rules.hpp) that deviation_of(), sweep() and block_bounds() rest on.
struct TrajectoryRules {
  decltype(&bounds::weighted_sum) weighted_sum = bounds::weighted_sum;
  decltype(&bounds::charge) charge = bounds::charge;
  decltype(&bounds::same_slopes) same_slopes = bounds::same_slopes;
  decltype(&bounds::moved_by_slope) moved_by_slope = bounds::moved_by_slope;
  decltype(&bounds::moved_by_softmax_slopes) moved_by_softmax_slopes = bounds::moved_by_softmax_slopes;
  decltype(&bounds::remainder_with_cut_edges) remainder_with_cut_edges = bounds::remainder_with_cut_edges;
  decltype(&bounds::defect_of_addition) defect_of_addition = bounds::defect_of_addition;
  decltype(&bounds::radius_of_element) radius_of_element = bounds::radius_of_element;
  decltype(&bounds::norm_of_row) norm_of_row = bounds::norm_of_row;
  decltype(&bounds::radius_as_read) radius_as_read = bounds::radius_as_read;
  decltype(&bounds::may_overflow) may_overflow = bounds::may_overflow;
  decltype(&bounds::refined_radius) refined_radius = bounds::refined_radius;
  decltype(&bounds::through_shadow) through_shadow = bounds::through_shadow;
};

}  // namespace driftbound::bounds
