#pragma once

#include <span>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound::bounds::inline theorems {

/// The graphs of primitive ops by which programs are known to compute a composite op. A bound of any run is the largest
/// of the bounds of these graphs.
/// Source:    docs/theory.md T-22
std::vector<Graph> foreign_bodies(const Op& op, std::span<const Shape> inputs);

}  // namespace driftbound::bounds::inline theorems
