#pragma once

#include <set>
#include <string>
#include <vector>

#include "bounds/blocks/block_bounds.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// One evaluation as bound() has read it. Nodes, inputs and outputs are given by position.
struct Evaluation {
  const Graph& graph;
  RecordedBlock run;
  std::vector<std::set<std::string>> conditions;  ///< by node: conditions of bounds of runs up to it
};

/// Adds the bounds by two trajectories to `bounds`: "shadow" for every layer, "adjoint/…" for outputs with at most
/// BoundOptions::most_output_elements elements per sample, and both for the targets. The cache is reused by later
/// calls.
/// Source:    docs/theory.md T-70, T-71
void add_end_to_end(const Evaluation& evaluation, const BoundOptions& options, const Setting& setting,
                    BoundCache& cache, Bounds& bounds);

}  // namespace driftbound::bounds
