#pragma once

#include "bounds/theorems/double_double.hpp"
#include "driftbound/bounds/box.hpp"

namespace driftbound::bounds {

/// Returns an upper bound of |v - f| that holds at every point of a box, for a graph with one float64 input: f is the
/// exact first output element, v its value in double-double arithmetic (T-114). Infinite: not certifiable for this box,
/// or the graph has an op that T-114 does not cover.
/// Guarantee: proven
/// Tightness: that of T-77; over a whole domain the widths of the slope intervals dominate
/// Throws:    as forward_error_bound()
/// Source:    docs/theory.md T-114
Magnitude pair_error_bound(const Graph& graph, const Box& box);

}  // namespace driftbound::bounds
