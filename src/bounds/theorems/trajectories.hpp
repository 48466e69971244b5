#pragma once

#include <span>
#include <vector>

#include "driftbound/num/ball.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// Arithmetic of bounds by two trajectories: radii, local errors, remainders and defects. Guarantee: proven, rounded up.

/// local + remainder + defect: |d|.sigma + |d|.kappa + tau.E of one value.
/// Source:    docs/theory.md T-60
Magnitude charge(Magnitude local, Magnitude remainder, Magnitude defect);

/// Whether the slopes that a remainder belongs to are those of the adjoint. Shapes: one vector per operand.
/// Source:    docs/theory.md T-60
bool same_slopes(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b);

/// |s| E: the change by an operand with slope s and radius E.
/// Source:    docs/theory.md T-60, T-62
Magnitude moved_by_slope(double slope, double radius);

/// 2 p E: bound of the change of an element p of a softmax, by the Jacobian at the centre, if its operands change by at
/// most E. The stored p must be below 1 + 10^-3; the factor is rounded up to 2.001.
/// Source:    docs/theory.md T-62
Magnitude moved_by_softmax_slopes(double p, double largest_radius);

/// kappa of a node with cut edges: the remainder plus the change by the operands that do not depend on the inputs and
/// are not propagated back.
/// Source:    docs/theory.md T-60, cutting an edge
Magnitude remainder_with_cut_edges(double remainder, double moved_by_cut_operands);

/// The smaller of the 2-norm of a row's radii and the propagated norm; infinite if the first one is not finite.
/// Source:    docs/theory.md T-62
double norm_of_row(double by_elements, double propagated);

/// Bound of the 2-norm distance of any run's row of operands from a row that lies within `distance` of the centre.
/// Source:    docs/theory.md T-88
double reach_of_sums(double radius, double distance);

/// Bound of the distance of a number in [least, most] from the centre.
/// Source:    docs/theory.md T-62
double reach_within(double centre, double least, double most);

/// Radius of an operand that may be read as 0: E + omega, omega = flushed.
/// Source:    docs/theory.md T-61
Magnitude radius_as_read(double radius, Magnitude flushed);

/// rests + rounding_of_slope radius_of_root: R of a node before its own rounding. `rests` is the sum of |J_k| R_k plus
/// the node's remainder, rounding_of_slope bounds |S_v - Σ J_k S_k|, radius_of_root is E_u.
/// Source:    docs/theory.md T-125
Magnitude joint_rest(Magnitude residuals, Magnitude rounding_of_slope, Magnitude radius_of_root);

/// The smaller of a radius and the one computed by an adjoint of this element.
/// Source:    docs/theory.md T-72
double refined_radius(double radius, double by_adjoint);

/// Bound of the contribution of a value at which an adjoint sweep stops: min(‖d‖₂ N, sum |d| E) plus defects.
/// Source:    docs/theory.md T-72
Magnitude ahead(Magnitude by_norm, Magnitude by_elements, Magnitude defect);

/// Upper bound of sum |d_i q_i| for |q_i| <= 2^-49 |Delta_i| + r_i (Delta_i / e_i)^2, |Delta_i| <= e_i and
/// ||Delta||_2 <= norm. Infinite if the largest |d_i| r_i / e_i^2 is 0 or not finite.
/// Guarantee: upper bound
/// Source:    docs/theory.md T-96
Magnitude remainder_by_norm(std::span<const double> d, const double* r, const double* e, double norm);

/// Bound of |computed - exact| for all numbers of two balls.
/// Tightness: the distance of the midpoints plus the radii, up to 2^-103 (|computed| + |exact|)
/// Source:    docs/theory.md T-70
Magnitude distance_from_exact(const Ball& computed, const Ball& exact);

/// Bound of the distance from the exact network: the distance from the shadow plus the shadow's own error.
/// Source:    docs/theory.md T-70, T-71
Magnitude through_shadow(Magnitude from_shadow, double shadow_error);

}  // namespace theorems

}  // namespace driftbound::bounds
