#pragma once

#include <vector>

#include "driftbound/bounds/bound.hpp"
#include "driftbound/model/graph.hpp"

namespace driftbound::soundness {

/// |c.(run - exact)| for a run that the model of rounding to nearest allows: every rounding of a number t errs by
/// u ufp(t), or by the smaller operand of a sum where that is less, in the direction in which c moves, products are rounded, and every sum takes its positive terms first, the
/// largest first, then the negative ones, the smallest first, or the other way round, whichever errs more; functions do
/// not err. The larger of both directions. Bounds that hold for every run by that model cannot be smaller.
/// Shapes:    `input`: one sample of the graph's one input
/// Domain:    one input; Gemm with constants (alpha = beta = 1), Add of two values, Relu, Softplus, Sin, Tanh
/// Throws:    InvalidArgument for another op
/// Source:    docs/theory.md T-116
double error_of_worst_roundings(const Graph& graph, const std::vector<double>& input, const Target& target, double u);

/// Whether a graph is in the domain of error_of_worst_roundings().
bool knows_worst_roundings(const Graph& graph);

}  // namespace driftbound::soundness
