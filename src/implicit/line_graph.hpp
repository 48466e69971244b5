#pragma once

#include <span>

#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::implicit {

/// The graph of t -> target(a + t (b - a)) - iso over the reals: one input of one float64 number a sample, one output
/// of one number. A double t is an exact input of it, whatever a + t (b - a) rounds to.
/// Shapes:    a, b: one sample, inputs in the order of the graph, row-major
/// Throws:    InvalidArgument where a or b has another number of elements than a sample, or one that is not finite, for
///            an iso value that is not finite, or a target that the graph does not have; Unsupported for inputs that
///            hold no floats and for shapes that are open beyond axis 0
/// Source:    docs/theory.md T-120
Graph line_graph(const Graph& graph, const Target& target, double iso, std::span<const double> a,
                 std::span<const double> b);

}  // namespace driftbound::implicit
