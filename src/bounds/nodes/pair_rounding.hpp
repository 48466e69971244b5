#pragma once

#include <vector>

#include "bounds/nodes/body_rounding.hpp"
#include "bounds/theorems/double_double.hpp"

namespace driftbound::bounds {

/// Returns bounds of the local rounding error of one op that is evaluated in double-double as in T-114, for all
/// operands within their radii.
/// Shapes:    one entry per output element
/// Guarantee: proven; infinite for ops that T-114 does not cover
/// Source:    docs/theory.md T-114
std::vector<double> pair_rounding(const UnrecordedNode& node, const Setting& setting);

}  // namespace driftbound::bounds
