#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/num/ball.hpp"

namespace driftbound::bounds {

/// What two trajectories are compared in where their difference is smaller than what double keeps of it.
using Extended = long double;

/// A value of a recorded run, and how far it is from the exact network's.
struct ExtendedValue {
  Tensor<Extended> run;
  std::vector<Extended> step;  ///< run - exact; empty: 0

  Extended step_at(std::size_t i) const { return step.empty() ? Extended(0) : step[i]; }
  Tensor<Extended> exact() const;
};

Tensor<Extended> widened(const Tensor<double>& values);

/// A node's operands on both trajectories; null: constants, which products need in double alone.
struct ExtendedView {
  const Node* node = nullptr;
  std::vector<const ExtendedValue*> inputs;
};

/// f at the run's operands, and f there less f at the exact network's.
struct ExtendedImage {
  Tensor<Extended> run;
  std::vector<Extended> change;  ///< empty: 0
};

/// f at any operands.
Tensor<Extended> extended_value(const Node& node, std::vector<const Tensor<Extended>*> operands, const Shape& shape);

/// `shadow`: the node at operands in double, of which constants are taken. `known`: f at the run's operands, or
/// null; products take it from there.
/// Shapes:    `shape`, that of the output
/// Guarantee: none; as accurate as Wide is precise
/// Throws:    as evaluate_as()
ExtendedImage approx_image(const ExtendedView& view, const NodeView& shadow, const Shape& shape,
                           const Tensor<Ball>* known = nullptr);

}  // namespace driftbound::bounds
