#pragma once

#include <vector>

#include "bounds/nodes/product_rounding.hpp"
#include "bounds/sums/term_patterns.hpp"

namespace driftbound::bounds {

// The local errors of one node, split into those that are modelled as random (docs/theory.md T-74, T-75) and the rest.

/// A node of any run, with bounds that hold for every run of the arithmetic.
struct RoundingNode {
  NodeView view;                         ///< the node at the shadow
  std::vector<Radii> operand_radii;      ///< distance of the run's operands from the shadow
  std::vector<double> moved;             ///< distance of f(the run's operands) from the shadow
  Radii added;                           ///< local errors of run and shadow together
  Radii own;                             ///< local errors of the shadow
  std::vector<UnrecordedSum> sums = {};  ///< by sums_of(), if is_plain_sum(); else empty
};

/// Local errors of one node, per element.
struct NodeChance {
  /// Errors modelled as random: the root of the sum of the squares of the largest roundings (T-74), or the standard
  /// deviation (T-75). Empty: no error is modelled as random.
  std::vector<double> amplitudes;
  std::vector<double> rest;  ///< bounds of the errors that are not modelled as random; empty: 0
  /// T-75: upper bounds of the standard deviation in any order of summation; empty if the errors depend on no order.
  std::vector<double> most;
};

/// Whether a node is a ReduceSum, or a matrix product with alpha = 1 or -1.
bool is_plain_sum(const NodeView& view);

/// Returns bounds of the sums of a node with is_plain_sum() that hold for every run.
/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-74
std::vector<UnrecordedSum> sums_of(const RoundingNode& node, const Setting& setting);

/// Returns the patterns of the terms of the node's sums at the shadow, one per sum; empty if all are `none`. `columns`:
/// as for the patterns_of() of a product; may be null.
/// Source:    docs/theory.md T-75
std::vector<TermPattern> patterns_of(const RoundingNode& node, const RightColumns* columns);

/// Returns bounds of the errors of the node's sums that are never modelled as random: the shadow's own errors,
/// underflow, flushing, and the reading of operands. Infinite where a sum may overflow.
/// Source:    docs/theory.md T-74
std::vector<double> rest_of_sums(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
