#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/num/ball.hpp"

namespace driftbound::bounds {

/// What two trajectories are compared in where their difference is smaller than what double keeps of it.
using Wide = long double;

/// A value of a recorded run, and how far it is from the exact network's.
struct WideValue {
  Tensor<Wide> run;
  std::vector<Wide> step;  ///< run - exact; empty: 0

  Wide step_at(std::size_t i) const { return step.empty() ? Wide(0) : step[i]; }
  Tensor<Wide> exact() const;
};

Tensor<Wide> widened(const Tensor<double>& values);

/// A node's operands on both trajectories; null: constants, which products need in double alone.
struct WideView {
  const Node* node = nullptr;
  std::vector<const WideValue*> inputs;
};

/// f at the run's operands, and f there less f at the exact network's.
struct WideImage {
  Tensor<Wide> run;
  std::vector<Wide> change;  ///< empty: 0
};

/// f at any operands.
Tensor<Wide> wide_value(const Node& node, std::vector<const Tensor<Wide>*> operands, const Shape& shape);

/// `shadow`: the node at operands in double, of which constants are taken. `known`: f at the run's operands, or
/// null; products take it from there.
/// Shapes:    `shape`, that of the output
/// Guarantee: none; as accurate as Wide is precise
/// Throws:    as evaluate_as()
WideImage approx_image(const WideView& view, const NodeView& shadow, const Shape& shape,
                       const Tensor<Ball>* known = nullptr);

}  // namespace driftbound::bounds
