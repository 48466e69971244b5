#pragma once

#include <string>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

/// What an arithmetic leaves open of a run of the graph, in words that name the node; empty: every run of it stores the
/// same numbers, and the CPU evaluator makes them.
/// Source:    docs/theory.md T-97
std::string undetermined_by(const Graph& graph, const ArithmeticModel& arithmetic);

}  // namespace driftbound::bounds
