#pragma once

#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

// Reverse mode: products of transposed Jacobians of single nodes with adjoints in double, with their defects (T-64).

/// The share of one operand in an adjoint: J^T d, where J is the Jacobian of a node with respect to this operand.
struct Transposed {
  std::vector<double> values;  ///< J^T d, computed in double; empty if it is not requested
  std::vector<double> defect;  ///< upper bounds of |values - J^T d| over the reals; empty: all 0
};

/// Computes J^T d for every requested operand of a node (one step of reverse mode). J is the stored Jacobian at the
/// centre: it consists of slopes, constants, values of operands of products, or values of a softmax.
/// Shapes:    `slopes`: as in Linearised, one entry per operand (may be empty if the op has no slopes); `d`: [output
///            size]; `wanted`: one entry per operand; result: one entry per operand, [operand size]
/// Guarantee: proven; the defect is infinite if a value is not finite
/// Throws:    InvalidArgument (a composite, sizes that do not match, missing slopes)
/// Source:    docs/theory.md T-64
std::vector<Transposed> transposed(const NodeView& view, const std::vector<std::vector<double>>& slopes,
                                   std::span<const double> d, const std::vector<bool>& wanted, const Setting& setting);

}  // namespace driftbound::bounds
