#pragma once

#include <vector>

#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {

/// What the roundings of a matrix product add in any run whose operands lie within the radii, reading them included.
/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-22, T-68, T-69
std::vector<double> product_rounding(const UnrecordedNode& node, const Setting& setting);

/// The sum behind one element of a product, at its largest.
struct UnrecordedSum {
  TermSizes terms;    ///< products and the addend
  Magnitude before;   ///< all roundings but the last, in any order
  Magnitude reading;  ///< what reading operands and addend changes
};

/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-74
std::vector<UnrecordedSum> unrecorded_sums(const UnrecordedNode& node, const Setting& setting);

}  // namespace driftbound::bounds
