#pragma once

#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "bounds/theorems/expansions.hpp"

namespace driftbound::bounds {

/// The linearisation of a node at the centre: the stored slopes, which define the Jacobian J that the adjoint uses, and
/// the second-order remainder.
struct Linearised {
  /// One entry per operand. Functions of one element: one slope per output element. Mul, Div, Min, Max, PRelu,
  /// comparisons (slope 0) and Choice (slope 1 for the selected operand): one slope per output element for each
  /// operand. ReduceMax, ReduceMin: one slope per input element (1 at the selected one, else 0). Empty: J follows from
  /// the op (Add, Sub, Neg, Cast, selections, ReduceSum), from the operands (Gemm, MatMul) or from the output
  /// (Softmax).
  std::vector<std::vector<double>> slopes;
  std::vector<double> remainder;                ///< kappa, per output element; empty: all 0
  Magnitude lipschitz = Magnitude::infinite();  ///< functions of one element: a Lipschitz constant for all elements
};

/// Linearises a node at the centre x = view.inputs: |f(x + delta) - f(x) - J delta| <= remainder for |delta| <=
/// `operand_radii`. `y_error` bounds |view.output - f(x)|.
/// Shapes:    `operand_radii`: one entry per input; remainder: one entry per output element
/// Guarantee: proven
/// Throws:    InvalidArgument for a composite
/// Source:    docs/theory.md T-65, T-66
Linearised linearise(const NodeView& view, std::span<const Radii> operand_radii, Radii y_error, const Setting& setting);

}  // namespace driftbound::bounds
