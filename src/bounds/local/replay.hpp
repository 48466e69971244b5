#pragma once

#include <functional>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// Adds "replay" to outputs and targets, and how many values of every layer are recorded otherwise.
/// `layers`: what the trace recorded, by node; `bounds_of_run`: "shadow" of a trace.
/// Source:    docs/theory.md T-97
void add_replay(const Graph& graph, const Trace& trace, const std::vector<const Tensor<double>*>& layers,
                const BoundOptions& options, const Setting& setting,
                const std::function<Bounds(const Trace&)>& bounds_of_run, Bounds& bounds);

}  // namespace driftbound::bounds
