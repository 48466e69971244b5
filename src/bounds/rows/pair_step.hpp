#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bounds/rows/run_step.hpp"

namespace driftbound::bounds {

/// The step of a function of two elements, y_i = f(a_i, b_i): Mul of two values, Div, Min, Max, PRelu, a comparison.
/// Shapes:    `constants`: one row of the operand that does not vary; empty where both vary. Varying operands have the
///            size of the result
/// Source:    docs/theory.md T-88
std::unique_ptr<const RunStep> pair_step(const Setting& setting, const Node& node, std::vector<double> constants,
                                         std::set<std::string>& conditions);

}  // namespace driftbound::bounds
