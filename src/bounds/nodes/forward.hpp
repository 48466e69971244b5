#pragma once

#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// Returns bounds of |f(x + delta) - f(x)| per output element, where f is the exact function of the node, x are the
/// recorded inputs and |delta| <= `radii`. `y_error` bounds |view.output - f(x)|.
/// Shapes:    `radii`: one entry per input
/// Source:    docs/theory.md T-40 to T-45
std::vector<double> propagate(const NodeView& view, std::span<const Radii> radii, Radii y_error,
                              const Setting& setting);

}  // namespace driftbound::bounds
