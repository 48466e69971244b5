#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

// Error bounds of composite ops, by propagation through their bodies node by node.

/// The options of body_error().
struct BodyRequest {
  bool rounds = true;        ///< every node of the body rounds as the arithmetic does; else the body is exact
  bool any_order = true;     ///< sums in any order; else in the declared order
  std::vector<Radii> radii;  ///< by operand: radii around the recorded operands; missing: 0
  /// Sums of any length are rounded once, when they are complete: what remains is what the rest of the body makes.
  bool sums_are_exact = false;
};

/// Returns upper bounds of |y - f(x)| for a composite: x are the recorded operands, f is the exact function, and y is
/// the result of evaluating the body node by node on operands within the radii, with roundings (`rounds`) or exactly. A
/// run of another program may use any of foreign_bodies(); the result is then the largest of their bounds.
/// Shapes:    one entry per output element; infinite if the recorded output is not finite
/// Guarantee: proven for runs that evaluate the body (other programs: one of the bodies) node by node
/// Tightness: that of componentwise propagation through the body
/// Source:    docs/theory.md T-22
std::vector<double> body_error(const NodeView& view, const BodyRequest& request, const Setting& setting,
                               std::set<std::string>& conditions);

}  // namespace driftbound::bounds
