#pragma once

#include <optional>
#include <span>

#include "bounds/nodes/product_node.hpp"

namespace driftbound::bounds {

/// Whether all are finite float32 numbers.
bool are_floats(std::span<const double> values);

/// What product_bounds() gives, in loops over rows, where nothing stands in their way: rows of recorded float32 numbers
/// times one constant matrix, and perhaps a constant row, in float32 to nearest; empty where something does.
/// Domain:    the setting has weights
/// Source:    docs/theory.md T-10, T-11, T-19, T-68, T-69, T-74 by T-81
std::optional<ProductBounds> plain_product_bounds(const Product& product, const NodeView& view, const Setting& setting);

/// propagate_product_node() for rows that move under one constant matrix, in single precision rounded up; empty for
/// other operands, or where a row cannot be scaled.
/// Source:    docs/theory.md T-40 by T-81
std::optional<std::vector<double>> plain_propagation(const Product& product, const NodeView& view,
                                                     std::span<const Radii> radii, const Setting& setting);

}  // namespace driftbound::bounds
