#pragma once

#include <vector>

#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {

// Local rounding errors of matrix products in runs that are not recorded.

/// Returns bounds of the local rounding error of a matrix product in any run, for all operands within their radii. The
/// error of reading the operands (T-13) is included.
/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-22, T-68, T-69
std::vector<double> product_rounding(const UnrecordedNode& node, const Setting& setting);

/// Bounds for the sum that computes one element of a product, for all operands within their radii.
struct UnrecordedSum {
  TermSizes terms;    ///< sizes of the products and the addend
  Magnitude before;   ///< error of all roundings except the last, in any order
  Magnitude reading;  ///< error of reading the operands and the addend
};

/// Returns these bounds for every element of a product.
/// Shapes:    one entry per output element
/// Source:    docs/theory.md T-74
std::vector<UnrecordedSum> unrecorded_sums(const UnrecordedNode& node, const Setting& setting);

}  // namespace driftbound::bounds
