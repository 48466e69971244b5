#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// The value of a node, computed in double, and its local error bound.
struct Centre {
  Tensor<double> value;
  std::vector<double> error;  ///< upper bounds of |value - exact value|; infinite if either is not finite
};

/// Evaluates an op in double at operands in double, and bounds the distance from the exact value at these operands.
/// Shapes:    `shape` is the shape of the output
/// Guarantee: proven
/// Tightness: 0 for ops that copy, the error itself for one rounding, k 2^-53 |A||B| for products (for runs in double
///            2^-53 ufp(value))
/// Source:    docs/theory.md T-80
Centre centre_of_node(const NodeView& view, const Shape& shape, const Setting& setting);

}  // namespace driftbound::bounds
