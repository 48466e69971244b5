#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounds/node_view.hpp"

namespace driftbound::bounds {

/// A node inside a composite, whose values in the run are not recorded.
struct UnrecordedNode {
  NodeView view;                     ///< centres in place of recorded values
  std::vector<Radii> operand_radii;  ///< distances of the run's operands from their centres
  Radii moved;                       ///< distance of f(the run's operands) from the centre of the output
  bool any_order = true;             ///< of sums; else the declared order
};

/// What the node's own roundings add, whatever its operands are within their radii. Matrix products, sums, functions
/// and single operations; every op that a body may hold.
/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-22
std::vector<double> body_rounding(const UnrecordedNode& node, const Setting& setting,
                                  std::set<std::string>& conditions);

}  // namespace driftbound::bounds
