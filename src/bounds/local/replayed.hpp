#pragma once

#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/trace.hpp"

namespace driftbound::bounds::inline theorems {

/// What every run of the trace's arithmetic stores at its inputs, where that determines it: by node, shapes as recorded.
/// Throws:    Unsupported as the CPU evaluator
/// Source:    docs/theory.md T-97
std::vector<Tensor<double>> replayed(const Graph& graph, const Trace& trace, int threads);

}  // namespace driftbound::bounds::inline theorems
