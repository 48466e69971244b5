#pragma once

#include <functional>

#include "bounds/nodes/node_view.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// Adds the bound "replay" to outputs and targets: if the arithmetic determines every rounding, or does so with the kernels
/// that were found in the recorded run, the run is executed again, and its "shadow" bounds hold for every run. Also stores,
/// per layer, the number of recorded values that differ from the replay. If a run is not determined, "replay" is infinite
/// and states the reason.
/// `layers`: the recorded values, by node. `bounds_of_run`: computes the "shadow" bounds of a trace.
/// Source:    docs/theory.md T-97, T-171
void add_replay(const Graph& graph, const Trace& trace, const std::vector<const Tensor<double>*>& layers,
                const KernelsByNode& kernels, const BoundOptions& options, const Setting& setting,
                const std::function<Bounds(const Trace&)>& bounds_of_run, Bounds& bounds);

}  // namespace driftbound::bounds
