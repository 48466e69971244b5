#pragma once

#include <span>
#include <vector>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

inline namespace theorems {

// What bounds by two trajectories do with radii, local errors, remainders and defects. Guarantee: proven, rounded up.

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
/// + 10^-3 stored.
/// Source:    docs/theory.md T-62
Magnitude moved_by_softmax_slopes(double p, double largest_radius);

/// kappa of a node whose operands that do not depend on the inputs are not followed back.
/// Source:    docs/theory.md T-60, cutting an edge
Magnitude remainder_with_cut_edges(double remainder, double moved_by_cut_operands);

/// The smaller of the norm of a row's radii and the norm handed on; the first where it is infinite.
/// Source:    docs/theory.md T-62
double norm_of_row(double by_elements, double propagated);

/// How far any run's row of operands may be from another that lies within `distance` of the centre, by 2-norms.
/// Source:    docs/theory.md T-88
double reach_of_sums(double radius, double distance);

/// How far a number between `least` and `most` is from the centre.
/// Source:    docs/theory.md T-62
double reach_within(double centre, double least, double most);

/// What an operand that may be read as 0 is off by: E + omega.
/// Source:    docs/theory.md T-61
Magnitude radius_as_read(double radius, Magnitude flushed);

/// R of a node: that of its operands behind its slopes and its own remainder, and what S lost when it was rounded.
/// Source:    docs/theory.md T-125
Magnitude joint_rest(Magnitude residuals, Magnitude rounding_of_slope, Magnitude radius_of_root);

/// The smaller of a radius and the one that an adjoint of its own gives.
/// Source:    docs/theory.md T-72
double refined_radius(double radius, double by_adjoint);

/// What values can add that an adjoint stops at: the smaller of ‖d‖₂ N and sum |d| E, and defects.
/// Source:    docs/theory.md T-72
Magnitude ahead(Magnitude by_norm, Magnitude by_elements, Magnitude defect);

/// sum |d_i q_i| of a row of functions whose q_i, at a distance of e_i at most r_i, falls like its square but for
/// 2^-49 of the distance, where all distances have the 2-norm `norm`. Infinite where that is not known.
/// Guarantee: upper bound
/// Source:    docs/theory.md T-96
Magnitude remainder_by_norm(std::span<const double> d, const double* r, const double* e, double norm);

/// Distance from the exact network: that from the shadow and the shadow's own.
/// Source:    docs/theory.md T-70, T-71
Magnitude through_shadow(Magnitude from_shadow, double shadow_error);

}  // namespace theorems

}  // namespace driftbound::bounds
