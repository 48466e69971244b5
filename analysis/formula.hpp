#pragma once

#include <string>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// What a graph computes, written as formulas: one line for every value that is used more than once or long (t1 = …),
/// the output last. Attributes follow a semicolon, numbers have six digits.
std::vector<std::string> formulas_of(const Graph& graph, const std::vector<std::string>& input_names);

}  // namespace driftbound::analysis
