#pragma once

#include <vector>

#include "bounds/node_view.hpp"

namespace driftbound::bounds {

/// The slopes J with f(a) - f(b) = J (a - b) for a node at two points, in the layout of Linearised::slopes; where
/// operands do not differ, the slopes at b. Empty where the op is linear in its operands, and for Softmax.
/// Guarantee: none (diagnostics); over the reals the identity is exact
/// Source:    docs/theory.md T-73
std::vector<std::vector<double>> approx_secants(const NodeView& a, const NodeView& b, const Setting& setting);

/// J^T d of a softmax between two points; all tensors are laid out as its output.
std::vector<double> approx_softmax_secant(const NodeView& a, const NodeView& b, const std::vector<double>& d);

}  // namespace driftbound::bounds
