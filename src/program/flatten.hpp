#pragma once

#include <cstddef>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// A graph written out for inputs of known shapes: no node is a composite, and the function is the same.
struct FlatGraph {
  Graph graph;
  std::vector<Shape> shapes;         ///< of every value of `graph`
  std::vector<ValueId> of_value;     ///< what stands in `graph` for each value of the original
  std::vector<std::size_t> of_node;  ///< the node of the original that each node of `graph` belongs to
};

/// Puts the body of every composite (model/composite.hpp) in its place.
/// Shapes:    input_shapes by position in Graph::inputs
/// Throws:    ShapeMismatch
FlatGraph flatten(const Graph& graph, const std::vector<Shape>& input_shapes);

}  // namespace driftbound
