#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// A trajectory of numbers in double, known exactly, close to the exact network.
struct Shadow {
  std::vector<Tensor<double>> values;      ///< of every value of the flat graph: see value()
  std::vector<std::vector<double>> error;  ///< upper bounds of |value - f(values of the operands)|; empty: all 0
  /// Values in place of those above, which are empty then; empty, or null: none.
  std::vector<const Tensor<double>*> kept_elsewhere;

  const Tensor<double>& value(ValueId id) const {
    return kept_elsewhere.empty() || kept_elsewhere[id] == nullptr ? values[id] : *kept_elsewhere[id];
  }
  NodeView view_of(const Node& node) const;
};

class OperandCache;

/// The network evaluated in double; with weights packed before, errors of products by norms where those say enough.
/// Shapes:    `inputs` by position in the graph's inputs, with the samples of the network
/// Guarantee: proven
/// Source:    docs/theory.md T-61
Shadow shadow_of(const Program& program, const std::vector<Tensor<double>>& inputs, const Setting& setting,
                 OperandCache* packed = nullptr);

}  // namespace driftbound::bounds
