#pragma once

#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::soundness {

/// |c.(run - exact)| for a run that the model of rounding to nearest allows: every rounding errs as far as the model
/// says in the direction in which c moves, products are those of fused steps, the first one exact, and every sum takes
/// its positive terms first, the largest first, then the negative ones, the smallest first, or the other way round,
/// whichever errs more; functions do not err. The larger of both directions. Bounds that hold for every run by that
/// model cannot be smaller.
/// Shapes:    `input`: one sample of the graph's one input
/// Domain:    what PlainNetwork knows
/// Throws:    InvalidArgument for another op
/// Source:    docs/theory.md T-116
double error_of_worst_roundings(const Graph& graph, const std::vector<double>& input, const Target& target, double u);

}  // namespace driftbound::soundness
