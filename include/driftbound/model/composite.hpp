#pragma once

#include <span>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound {

/// Whether the op means a graph of simpler ops.
bool is_composite(const Op& op);

/// What a composite means for inputs of these shapes: a graph of ops that are no composites; its input i is the op's
/// input i, its one output the op's and computed by its last node. Every constant in it is a number that the op's
/// definition or its attributes name, so that the graph over the reals is the op's exact function; evaluators compute
/// it node by node.
/// Throws:    ShapeMismatch; InvalidArgument where the op is no composite
Graph composite_body(const Op& op, std::span<const Shape> inputs);

/// composite_body() and, after it, other steps by which programs compute the op: graphs of the same exact function,
/// with the same inputs and one output.
/// Throws:    ShapeMismatch; InvalidArgument where the op is no composite
/// Source:    docs/theory.md T-22
std::vector<Graph> composite_bodies(const Op& op, std::span<const Shape> inputs);

/// How many bodies composite_bodies() has after the first one; 0 for ops that are no composites.
std::size_t count_of_other_bodies(const Op& op);

/// Shape of the body's output.
/// Throws:    ShapeMismatch
Shape composite_shape(const Op& op, std::span<const Shape> inputs);

}  // namespace driftbound
