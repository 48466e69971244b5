#pragma once

#include <optional>
#include <span>

#include "bounds/nodes/product_node.hpp"

namespace driftbound::bounds {

// Local bounds and propagation of the most common matrix products, by row kernels. They are faster than the general
// versions in product_node.hpp.

/// Whether all values are finite float32 numbers.
bool are_floats(std::span<const double> values);

/// Computes product_bounds() by row kernels for float32 arithmetic to nearest: rows of recorded float32 numbers times
/// one matrix of float32 numbers, plus an optional row. Empty for other products, if setting.operands is null, or if
/// a row or the matrix cannot be scaled to single precision.
/// Source:    docs/theory.md T-10, T-11, T-19, T-68, T-69, T-74 by T-81
std::optional<ProductBounds> plain_product_bounds(const Product& product, const NodeView& view, const Setting& setting);

/// Computes propagate_product_node() in single precision, rounded up, for rows times one matrix where only the rows
/// have radii. Empty for other operands, or if a row or the matrix cannot be scaled to single precision.
/// Source:    docs/theory.md T-40 by T-81
std::optional<std::vector<double>> plain_propagation(const Product& product, const NodeView& view,
                                                     std::span<const Radii> radii, const Setting& setting);

}  // namespace driftbound::bounds
