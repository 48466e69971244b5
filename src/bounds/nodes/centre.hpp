#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// A node's value in double next to the exact one.
struct Centre {
  Tensor<double> value;
  std::vector<double> error;  ///< upper bounds of |value - exact|; infinite where the function has no finite value
};

/// An op at operands in double, computed in double, and how far that is from its exact value there.
/// Shapes:    `shape`, that of the output
/// Guarantee: proven
/// Tightness: 0 for ops that copy, half a unit in the last place for one rounding, k 2^-53 |A||B| for products
/// Source:    docs/theory.md T-80
Centre centre_of_node(const NodeView& view, const Shape& shape, const Setting& setting);

}  // namespace driftbound::bounds
