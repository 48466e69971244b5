#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

// One node of a network over a box of inputs (docs/theory.md T-77): slopes, remainders and the propagated errors.

/// One operand of a node, for all points of a box.
struct BoxOperand {
  Radii range;              ///< distance of the exact network from the centre, at every point of the box
  Radii error;              ///< distance of the other trajectory from the exact network, at the same point
  bool is_followed = true;  ///< whether the adjoint propagates to this operand; else its effect is in the remainder
};

/// Bounds of one node that hold at all points of a box.
struct BoxNode {
  std::vector<std::vector<double>> slopes;      ///< J, in the format of Linearised::slopes
  std::vector<double> remainder;                ///< kappa, per output element
  std::vector<double> moved;                    ///< bound of the change of the node's function due to `error`
  Magnitude lipschitz = Magnitude::infinite();  ///< Lipschitz constant over the box, for functions of one element
};

/// Computes slopes and bounds of one node. `y_range`: distance of the node's function from view.output, for all
/// operands within range + error; used for Softmax only.
/// Shapes:    operands: one entry per input of the node; remainder, moved: one entry per output element
/// Guarantee: proven
/// Throws:    InvalidArgument for a composite
/// Source:    docs/theory.md T-77
BoxNode over_box(const NodeView& view, const std::vector<BoxOperand>& operands, Radii y_range, const Setting& setting);

}  // namespace driftbound::bounds
