#pragma once

#include <vector>

#include "bounds/local/local.hpp"
#include "bounds/nodes/node_view.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

// The model of T-74 tried on the data, where a result lies above a bound that rests on it.

/// Widens the probabilistic bounds of a product that its recorded results exceed, by their repeated terms, and removes
/// those that sums of the same terms in other orders come near (TermPattern::biased). `exact` are the exact results at
/// the recorded operands.
/// Returns:   whether a bound was changed so that its result no longer exceeds it: the model does not fit these data
/// Domain:    `local` is that of the node, with probabilistic bounds
/// Source:    docs/theory.md T-133
bool try_on_data(const NodeView& view, const Setting& setting, const Tensor<Ball>& exact, LocalBound& local);

/// Removes the bounds adjoint/probabilistic of targets and outputs that the recorded run exceeds if `fits` is false, or
/// if runs of the network in other orders come near them. `exact` are the layers of the exact network.
/// Source:    docs/theory.md T-133
void try_end_to_end(const Graph& graph, const Trace& trace, const std::vector<Tensor<Ball>>& exact, bool fits,
                    const BoundOptions& options, Bounds& bounds);

}  // namespace driftbound::bounds
