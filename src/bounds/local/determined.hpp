#pragma once

#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

/// Returns a text that names the first property of a run of the graph that the arithmetic does not determine, and the
/// node. If it is empty, all runs of the arithmetic store the same numbers, and the CPU evaluator computes them.
/// Source:    docs/theory.md T-97
std::string undetermined_by(const Graph& graph, const ArithmeticModel& arithmetic);

}  // namespace driftbound::bounds
