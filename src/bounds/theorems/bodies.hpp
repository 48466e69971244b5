#pragma once

#include <span>
#include <vector>

#include "driftbound/model/graph.hpp"

namespace driftbound::bounds::inline theorems {

/// The graphs of primitive ops by which any program is known to compute a composite op: a bound of all runs takes the
/// largest of their bounds.
/// Source:    docs/theory.md T-22
std::vector<Graph> foreign_bodies(const Op& op, std::span<const Shape> inputs);

}  // namespace driftbound::bounds::inline theorems
