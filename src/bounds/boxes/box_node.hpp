#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// One operand of a node for all points of a box: within `range` of its centre the exact network at every point, and
/// within `error` of that the other trajectory at the same point.
struct BoxOperand {
  Radii range;
  Radii error;
  bool is_followed = true;  ///< by the adjoint; else what it moves counts as left over
};

/// A node for all points of a box: slopes as Linearised has them, and what they leave over.
struct BoxNode {
  std::vector<std::vector<double>> slopes;
  std::vector<double> remainder;                ///< kappa per output element
  std::vector<double> moved;                    ///< how far the node's function moves with the operands' errors
  Magnitude lipschitz = Magnitude::infinite();  ///< functions of one element: the largest over the box
};

/// Shapes:    operands one entry an input; remainder, moved one entry an output element
/// Guarantee: proven
/// Throws:    InvalidArgument for a composite
/// Source:    docs/theory.md T-77
BoxNode over_box(const NodeView& view, const std::vector<BoxOperand>& operands, Radii y_range, const Setting& setting);

}  // namespace driftbound::bounds
