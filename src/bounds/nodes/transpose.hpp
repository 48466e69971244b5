#pragma once

#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// J^T d for one operand.
struct Transposed {
  std::vector<double> values;  ///< as computed in double; empty where the operand was not wanted
  std::vector<double> defect;  ///< upper bounds of |values - J^T d| over the reals; empty: all 0
};

/// One step of reverse mode at a node: J^T d for every operand that is wanted, J the Jacobian at the centre as it is
/// stored: slopes, constants, the values of operands of products, the values of a softmax.
/// Shapes:    slopes as in Linearised, one entry an operand (all may be left out where the op is its own Jacobian);
///            d [output size]; wanted one entry an operand; results one entry an operand, [operand size]
/// Guarantee: proven; infinite where a value is not finite
/// Throws:    InvalidArgument (a composite, sizes that do not fit, slopes that are missing)
/// Source:    docs/theory.md T-64
std::vector<Transposed> transposed(const NodeView& view, const std::vector<std::vector<double>>& slopes,
                                   std::span<const double> d, const std::vector<bool>& wanted, const Setting& setting);

}  // namespace driftbound::bounds
