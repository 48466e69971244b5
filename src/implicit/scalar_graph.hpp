#pragma once

#include "driftbound/bounds/target.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::implicit {

/// The target of a network with one input; without one, the network's one output element.
/// Throws:    InvalidArgument where there is another number of inputs, or of elements and no target is named, where the
///            target does not exist, or the input holds no floats
Target checked_target(const Graph& graph, const Target* target);

/// The graph with target - iso as its one output, of one element a sample, and an input that holds doubles. What is
/// added moves elements and subtracts.
Graph scalar_graph(const Graph& graph, const Target& target, double iso);

}  // namespace driftbound::implicit
