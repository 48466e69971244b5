#pragma once

#include <span>

#include "bounds/chance/node_chance.hpp"

namespace driftbound::bounds {

// The random-order estimate (docs/theory.md T-75): variances of rounding errors of sums in random order. A heuristic.

/// Mean square of the rounding error of t to nearest, in units of u^2 t^2: a third of the mean square of ufp(t)/|t|, if
/// the logarithm of |t| is uniformly distributed.
inline constexpr double rounding_variance = 0.18;

/// A sum whose terms are added in random order.
struct RandomOrderSum {
  double count = 0.0;            ///< N, the number of terms
  double squares = 0.0;          ///< q^2, the sum of the squares of the terms
  double sum = 0.0;              ///< s, the sum
  double addend = 0.0;           ///< c, added first or last; included in N, q^2 and s
  bool rounds_products = false;  ///< whether the products are rounded before they are added
};

/// Returns the variance of the rounding errors of such a sum, in units of u^2.
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
double estimate_sum_variance(const RandomOrderSum& sum);

/// Variances of the rounding errors of a node's sums, weighted by the squared adjoint: of all elements together over
/// random orders; of the element with the largest variance; and an upper bound for all elements in any order.
struct SumsByChance {
  double variance = 0.0, largest = 0.0, most = 0.0;
};

/// Returns sigma'^2 of T-75: a variance such that rounding errors over random orders exceed `sigmas` sigma' as rarely,
/// by Chernoff's bound, as a normal number exceeds `sigmas` standard deviations. `fixed`: the variance of the errors
/// that do not depend on the order.
/// Shapes:    one entry per node
/// Domain:    0 < sigmas
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
double variance_over_orders(double fixed, std::span<const SumsByChance> nodes, double sigmas);

/// Estimates the standard deviations of a node's local errors: of sums in random order, by estimate_sum_variance(); of
/// all other errors, as uniformly distributed up to their bound.
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
NodeChance estimate_roundings(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
