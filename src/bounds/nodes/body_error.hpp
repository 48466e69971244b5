#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// What a composite's body is followed with.
struct BodyRequest {
  bool rounds = true;        ///< every node of the body rounds as the arithmetic does; else the body is exact
  bool any_order = true;     ///< sums in any order; else in the declared one
  std::vector<Radii> radii;  ///< distances of the operands from the recorded ones
};

/// Upper bounds of |y - f(x)|, x the recorded operands, f the composite's exact function and y what its body gives node
/// by node: for every run of the arithmetic (rounds), or for exact nodes on operands within the radii. Runs of other
/// programs take the steps of any of composite_bodies(): the largest of their bounds.
/// Shapes:    one entry per output element
/// Guarantee: proven for runs that evaluate the body (of other programs, one of the bodies) node by node
/// Tightness: that of componentwise propagation through the body
/// Source:    docs/theory.md T-22
std::vector<double> body_error(const NodeView& view, const BodyRequest& request, const Setting& setting,
                               std::set<std::string>& conditions);

}  // namespace driftbound::bounds
