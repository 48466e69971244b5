#pragma once

#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"

namespace driftbound::analysis {

/// The output of a graph's last node in float32, where every sum keeps what its additions lose, adds that up beside, and
/// adds it to the sum at the end (T. Ogita, S. M. Rump, S. Oishi, SIAM J. Sci. Comput. 26, 2005: Sum2). Products are
/// rounded once.
/// Domain:    graphs of products and sums
/// Source:    docs/theory.md T-142
/// Throws:    what evaluate_as() throws
Tensor<double> evaluate_compensated(const Graph& graph, const Inputs& inputs);

}  // namespace driftbound::analysis
