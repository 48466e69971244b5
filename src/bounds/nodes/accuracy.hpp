#pragma once

#include <set>
#include <string>
#include <string_view>

#include "bounds/nodes/node_view.hpp"
#include "bounds/theorems/functions.hpp"

namespace driftbound::bounds {

/// The accuracy of a function, noted among the conditions unless it is IEEE 754's or MPFR's correct rounding.
/// Throws:    Unsupported where the arithmetic has no entry for it
FunctionError error_of(std::string_view function, const Setting& setting, std::set<std::string>& conditions);

/// Of the exp in an Elu of another program: as accurate as its expm1 where nothing is said of an exp.
/// Source:    docs/theory.md T-18
FunctionError error_of_exp_in_elu(const Setting& setting, std::set<std::string>& conditions);

}  // namespace driftbound::bounds
