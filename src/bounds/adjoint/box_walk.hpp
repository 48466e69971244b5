#pragma once

#include "bounds/adjoint/radii.hpp"
#include "bounds/pair_rules.hpp"

namespace driftbound::bounds {

/// Every run against the exact network, both at the same point of a box around the shadow's inputs, whatever the point.
/// `ranges`: deviation_of() the exact network from the shadow with inputs anywhere in the box.
/// Shapes:    `input_error` by position in the graph's inputs: what a run does to a point first
/// Domain:    `pairs`: the run is one in double-double that loses what these say (T-114), not one of the arithmetic;
///            `sources`: to be followed too
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-77, T-117
Deviation deviation_over_box(Trajectory trajectory, const Network& network, const Shadow& shadow,
                             const Deviation& ranges, const std::vector<std::vector<double>>& input_error,
                             const Setting& setting, Weights& weights, const PairRules* pairs = nullptr,
                             SourceRadii* sources = nullptr);

}  // namespace driftbound::bounds
