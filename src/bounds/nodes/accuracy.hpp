#pragma once

#include <set>
#include <string>
#include <string_view>

#include "bounds/nodes/node_view.hpp"
#include "bounds/theorems/functions.hpp"

namespace driftbound::bounds {

// The declared accuracy of functions (T-16), with the conditions that it implies.

/// Returns the declared accuracy of a function. Unless the function is correctly rounded, a condition that states the
/// accuracy is added to `conditions`.
/// Throws:    Unsupported if the arithmetic has no entry for the function
FunctionError error_of(std::string_view function, const Setting& setting, std::set<std::string>& conditions);

/// Returns the accuracy of the exp in an Elu that another program computes as exp(x) - 1: the declared accuracy of exp,
/// or that of expm1 if the arithmetic has no entry for exp.
/// Source:    docs/theory.md T-18
FunctionError error_of_exp_in_elu(const Setting& setting, std::set<std::string>& conditions);

}  // namespace driftbound::bounds
