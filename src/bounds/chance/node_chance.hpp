#pragma once

#include <vector>

#include "bounds/nodes/product_rounding.hpp"
#include "bounds/sums/term_patterns.hpp"

namespace driftbound::bounds {

/// A node of any run, and what its local errors are at most.
struct RoundingNode {
  NodeView view;                         ///< the shadow's values
  std::vector<Radii> operand_radii;      ///< of every run from the shadow
  std::vector<double> moved;             ///< of f(the run's operands) from the shadow
  Radii added;                           ///< local errors of both trajectories together
  Radii own;                             ///< the shadow's alone
  std::vector<UnrecordedSum> sums = {};  ///< of sums and products; empty for other nodes
};

/// Local errors of one node where some are left to chance.
struct NodeChance {
  std::vector<double> amplitudes;  ///< roots of summed squares, per element; empty: nothing is left to chance
  std::vector<double> rest;        ///< what is not; empty: 0
  std::vector<double> most;        ///< amplitudes in the worst order; empty where there is no order
};

/// Whether a node's roundings are those of sums of products or numbers that nothing scales.
bool is_plain_sum(const NodeView& view);

/// The sums of such a node, at their largest.
/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-74
std::vector<UnrecordedSum> sums_of(const RoundingNode& node, const Setting& setting);

/// The patterns that the terms of such a node's sums have; empty where none has one.
/// Source:    docs/theory.md T-75
std::vector<TermPattern> patterns_of(const RoundingNode& node, const RightColumns* columns);

/// What is never left to chance: the shadow's own errors, underflow, flushing, and reading operands; infinite where a
/// sum may overflow.
/// Source:    docs/theory.md T-74
std::vector<double> rest_of_sums(const RoundingNode& node, const Setting& setting);

}  // namespace driftbound::bounds
