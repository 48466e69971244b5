#pragma once

#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "bounds/theorems/expansions.hpp"

namespace driftbound::bounds {

/// A node at the centre: slopes are the Jacobian that the adjoint uses.
struct Linearised {
  /// One entry an operand. Functions of one element: a slope per output element. Mul, Div, Min, Max, PRelu, comparisons
  /// (0) and Choice (1 for the operand taken): a slope per output element for each operand. ReduceMax, ReduceMin: one
  /// per input element (1 at the chosen one). Empty: the op is its own Jacobian (Add, Sub, Neg, Cast, selections,
  /// ReduceSum, Gemm, MatMul), or the output gives it (Softmax).
  std::vector<std::vector<double>> slopes;
  std::vector<double> remainder;                ///< per output element; empty: all 0
  Magnitude lipschitz = Magnitude::infinite();  ///< functions of one element: the largest over the tensor
};

/// The node's function against its Jacobian at the centre: with operands off by up to their radii, the output moves by
/// the Jacobian times their differences but for the remainder. `y_error`: how far view.output is from the function's
/// value at view.inputs.
/// Shapes:    radii one entry an input; remainder one entry an output element
/// Guarantee: proven
/// Throws:    InvalidArgument for a composite
/// Source:    docs/theory.md T-65, T-66
Linearised linearise(const NodeView& view, std::span<const Radii> operand_radii, Radii y_error, const Setting& setting);

}  // namespace driftbound::bounds
