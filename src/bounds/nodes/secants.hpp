#pragma once

#include <vector>

#include "bounds/nodes/wide.hpp"

namespace driftbound::bounds {

/// The slopes J with f(a) - f(b) = J (a - b) for a node at a run's operands and the exact network's, in the layout of
/// Linearised::slopes; where operands do not differ, the slopes at the shadow. Empty where the op is linear in its
/// operands, and for Softmax.
/// Guarantee: none (diagnostics); over the reals the identity is exact
/// Source:    docs/theory.md T-73
std::vector<std::vector<double>> approx_secants(const ExtendedView& view, const ExtendedImage& image,
                                                const NodeView& shadow, const Setting& setting);

/// J^T d of a softmax between the two; all tensors are laid out as its output.
std::vector<double> approx_softmax_secant(const ExtendedValue& operand, const NodeView& shadow,
                                          const std::vector<double>& d);

}  // namespace driftbound::bounds
