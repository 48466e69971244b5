#pragma once

#include <vector>

#include "bounds/nodes/wide.hpp"

namespace driftbound::bounds {

// Secants between the recorded run and the exact network, for the attribution of an error to nodes (T-73).

/// Returns secants J with f(a) - f(b) = J (a - b), where a are the operands of a node in the run and b those in the
/// exact network. The layout is that of Linearised::slopes. If a and b are equal or too close, the slopes at the shadow
/// are used. Empty for ops that are linear in their operands, and for Softmax.
/// Guarantee: none (diagnostics); over the reals the identity is exact
/// Source:    docs/theory.md T-73
std::vector<std::vector<double>> approx_secants(const ExtendedView& view, const ExtendedImage& image,
                                                const NodeView& shadow, const Setting& setting);

/// Returns J^T d for the secant J of a softmax between the operand in the run and the one in the exact network.
/// Shapes:    that of the output of the softmax
/// Guarantee: none (diagnostics)
/// Source:    docs/theory.md T-73
std::vector<double> approx_softmax_secant(const ExtendedValue& operand, const NodeView& shadow,
                                          const std::vector<double>& d);

}  // namespace driftbound::bounds
