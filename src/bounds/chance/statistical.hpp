#pragma once

#include <span>

#include "bounds/chance/node_chance.hpp"

namespace driftbound::bounds {

/// Mean square of the rounding error of t to nearest, in units of u^2 t^2: a third of that of ufp(t)/|t|, whose
/// logarithm is spread evenly over a binade.
inline constexpr double rounding_variance = 0.18;

/// A sum whose terms come in random order.
struct RandomOrderSum {
  double count = 0.0;    ///< N terms
  double squares = 0.0;  ///< of them, summed
  double sum = 0.0;      ///< s
  double addend = 0.0;   ///< c, added before or after all others; part of s and of the terms
  bool rounds_products = false;
};

/// Variance of the rounding errors of such a sum, in units of u^2.
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
double estimate_sum_variance(const RandomOrderSum& sum);

/// A node's sums, weighted: the variance of their rounding errors over all orders, that of the element with the largest,
/// and what it is at most in any order.
struct SumsByChance {
  double variance = 0.0, largest = 0.0, most = 0.0;
};

/// The variance of a normal number that leaves `sigmas` of its standard deviations as rarely as rounding errors do whose
/// orders are drawn at random; `fixed` is the variance of roundings that no order has a part in.
/// Shapes:    one entry a node
/// Domain:    0 < sigmas
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
double variance_over_orders(double fixed, std::span<const SumsByChance> nodes, double sigmas);

/// A node's roundings by their variances: sums in random order, everything else spread evenly over its bound.
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
NodeChance estimate_roundings(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
