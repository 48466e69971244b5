#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/num/ball.hpp"

namespace driftbound::bounds {

// Approximate differences between the recorded run and the exact network in extended precision, for diagnostics.

/// The number type for differences of two trajectories: such a difference may be smaller than the rounding errors of
/// double.
using Extended = long double;

/// A value of a recorded run, and its difference from the exact network.
struct ExtendedValue {
  Tensor<Extended> run;
  std::vector<Extended> step;  ///< run - exact; empty: 0

  Extended step_at(std::size_t i) const { return step.empty() ? Extended(0) : step[i]; }
  Tensor<Extended> exact() const;
};

/// Converts the elements to Wide.
Tensor<Extended> widened(const Tensor<double>& values);

/// A node with its operands in the run and in the exact network; null for constants.
struct ExtendedView {
  const Node* node = nullptr;
  std::vector<const ExtendedValue*> inputs;
};

/// The values of the function f of a node.
struct ExtendedImage {
  Tensor<Extended> run;          ///< f(operands in the run)
  std::vector<Extended> change;  ///< f(operands in the run) - f(operands in the exact network); empty: 0
};

/// Evaluates the function of a node in Wide.
Tensor<Extended> extended_value(const Node& node, std::vector<const Tensor<Extended>*> operands, const Shape& shape);

/// Evaluates the function f of a node for the operands in the run and in the exact network. `shadow`: the node with
/// operands in double, which provides the constants. `known`: an enclosure of f(operands in the run), or null; a
/// product with one varying factor uses its midpoints instead of computing WideImage::run.
/// Shapes:    `shape` is the shape of the output
/// Guarantee: none; the accuracy is that of Wide, and that of double for the change of a product with one varying
///            factor
/// Throws:    as evaluate_as()
ExtendedImage approx_image(const ExtendedView& view, const NodeView& shadow, const Shape& shape,
                           const Tensor<Ball>* known = nullptr);

}  // namespace driftbound::bounds
