#pragma once

#include "bounds/adjoint/node_chance.hpp"

namespace driftbound::bounds {

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

/// A node's roundings by their variances: sums in random order, everything else spread evenly over its bound.
/// Guarantee: none (estimate)
/// Source:    docs/theory.md T-75
NodeChance estimate_roundings(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
