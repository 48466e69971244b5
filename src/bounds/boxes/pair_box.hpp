#pragma once

#include "bounds/theorems/double_double.hpp"
#include "driftbound/bounds/box.hpp"

namespace driftbound::bounds {

/// Of |v - f| at every point of a box for a graph with one float64 input, v evaluated in double-double as T-114 says;
/// infinite: not certifiable for this box, or with an op that T-114 does not name.
/// Guarantee: proven
/// Tightness: that of T-77, whose slopes make up most of it over a whole domain
/// Throws:    as forward_error_bound()
/// Source:    docs/theory.md T-114
Magnitude pair_error_bound(const Graph& graph, const Box& box);

}  // namespace driftbound::bounds
