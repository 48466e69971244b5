#pragma once

#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// What a graph computes, written as formulas: one line for every value used more than once (t1 = …), the output last.
/// Attributes of ops that move or reduce elements are left out, numbers have six digits.
std::vector<std::string> formulas_of(const Graph& graph, const std::vector<std::string>& input_names);

}  // namespace driftbound::analysis
