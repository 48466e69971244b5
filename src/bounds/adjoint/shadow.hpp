#pragma once

#include <vector>

#include "bounds/nodes/node_view.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

// The shadow: the network evaluated in double, the centre of most bounds (docs/theory.md T-61).

/// A trajectory of numbers in double close to the exact network, with bounds of its local errors.
struct Shadow {
  std::vector<Tensor<double>> values;      ///< by value of the flat graph; read them by value()
  std::vector<std::vector<double>> error;  ///< upper bounds of |value - f(values of the operands)|; empty: all 0
  /// By value: a tensor that replaces the entry of `values`, which is then empty; null: none. Empty: all null.
  std::vector<const Tensor<double>*> kept_elsewhere;

  const Tensor<double>& value(ValueId id) const {
    return kept_elsewhere.empty() || kept_elsewhere[id] == nullptr ? values[id] : *kept_elsewhere[id];
  }
  NodeView view_of(const Node& node) const;
};

class OperandCache;

/// Evaluates the network in double. With `packed`, constant right matrices are taken from that cache, and the errors of
/// products with them are bounded by norms of rows and columns where plain_centre() applies.
/// Shapes:    `inputs` by position in the graph's inputs, with program.rows() samples
/// Guarantee: proven
/// Source:    docs/theory.md T-61
Shadow shadow_of(const Program& program, const std::vector<Tensor<double>>& inputs, const Setting& setting,
                 OperandCache* packed = nullptr);

}  // namespace driftbound::bounds
