#pragma once

#include <vector>

#include "bounds/nodes/body_rounding.hpp"
#include "bounds/theorems/double_double.hpp"

namespace driftbound::bounds {

/// What the roundings of one op add where it is evaluated in double-double as T-114 says, whatever its operands are
/// within their radii.
/// Shapes:    one entry per output element
/// Guarantee: proven; infinite for ops that T-114 does not name
/// Source:    docs/theory.md T-114
std::vector<double> pair_rounding(const UnrecordedNode& node, const Setting& setting);

}  // namespace driftbound::bounds
