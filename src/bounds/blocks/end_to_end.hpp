#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounds/blocks/block_bounds.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// One evaluation as bound() has read it, everything by position.
struct Evaluation {
  const Graph& graph;
  RecordedBlock run;
  std::vector<std::set<std::string>> conditions;  ///< by node: what bounds of runs up to there stand on
};

/// Adds to `bounds` what two trajectories give: "shadow" for every layer, "adjoint/…" for small outputs, and both for
/// the targets. The cache is kept from call to call.
/// Source:    docs/theory.md T-70, T-71
void add_end_to_end(const Evaluation& evaluation, const BoundOptions& options, const Setting& setting,
                    BoundCache& cache, Bounds& bounds);

}  // namespace driftbound::bounds
