#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/drift.hpp"

namespace driftbound::analysis {

/// The node of a layer that a run can compute in float64, by its name ("fc2", "fc2:fp64").
/// Throws:    InvalidArgument listing layers, or naming another format; Unsupported for a layer that depends on no input
std::size_t promoted_node(const Graph& graph, std::string_view text);

/// A run of a model in which one layer is computed in float64 from what it reads in `base`, and rounded once to the format
/// of its result; all layers behind it read that.
/// `evaluate`: makes a run of a graph on inputs, as the run `base` was made
/// Throws:    what the evaluators throw
Trace promoted_run(const Graph& graph, const Trace& base, std::size_t node,
                   const std::function<Trace(const Graph&, const Inputs&)>& evaluate);

/// The layers that depend on an input, those whose promotion is predicted to leave the smallest error first.
std::vector<std::size_t> most_promising(const TracedRun& run);

}  // namespace driftbound::analysis
