#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound::analysis {

/// Values in nested brackets, an axis a level; the shape alone where there are more than a line holds.
std::string nested_text(const std::vector<std::string>& values, const Shape& shape);

/// The attributes that decide what an op computes: "axis 1, kernel [2, 2]"; those that say nothing are left out.
std::string attributes_of(const Op& op);

/// The formula over the reals of an op that computes, with attributes by name; empty for one whose name says it, one
/// that moves elements, and a composite, which has a body.
std::string_view exact_function_of(const Op& op);

/// What a graph computes, written as formulas: one line for every value that is used more than once or long (t1 = …),
/// the output last. Attributes follow a semicolon, numbers have six digits.
std::vector<std::string> formulas_of(const Graph& graph, const std::vector<std::string>& input_names);

}  // namespace driftbound::analysis
