#pragma once

#include <cstddef>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// A graph of primitive ops alone, for inputs of known shapes. It computes the same function as the original graph.
/// Values inside a composite have the type of the composite's result.
struct FlatGraph {
  Graph graph;
  std::vector<Shape> shapes;         ///< by value of `graph`
  std::vector<ValueId> of_value;     ///< by value of the original graph: its counterpart in `graph`
  std::vector<std::size_t> of_node;  ///< by node of `graph`: the node of the original graph that contains it
};

/// Replaces every composite by its body (model/composite.hpp), a body that returns an operand by an Identity: every node
/// of the original graph has a value of its own.
/// Shapes:    `input_shapes`: one entry per graph input, in the order of Graph::inputs
/// Throws:    ShapeMismatch
FlatGraph flatten(const Graph& graph, const std::vector<Shape>& input_shapes);

}  // namespace driftbound
