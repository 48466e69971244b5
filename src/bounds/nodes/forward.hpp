#pragma once

#include <span>
#include <vector>

#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

/// How far the exact function of a node moves when its inputs move by up to `radii` from the recorded
/// ones. `y_error` says how far the recorded output is from the exact function of the recorded inputs.
/// Shapes:    radii one entry per input
/// Source:    docs/theory.md T-40 to T-45
std::vector<double> propagate(const NodeView& view, std::span<const Radii> radii, Radii y_error,
                              const Setting& setting);

}  // namespace driftbound::bounds
