#pragma once

#include "bounds/adjoint/radii.hpp"
#include "bounds/theorems/double_double.hpp"

namespace driftbound::bounds {

/// Every run against the exact network, both at the same point of a box around the shadow's inputs, whatever the point.
/// `ranges`: deviation_of() the exact network from the shadow with inputs anywhere in the box.
/// Shapes:    `input_error` by position in the graph's inputs: what a run does to a point first
/// Domain:    `in_double_double`: the run is one in double-double (T-114), not one of the arithmetic;
///            `sources`: to be followed too
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-77, T-117
Deviation deviation_over_box(Trajectory trajectory, const Program& program, const Shadow& shadow,
                             const Deviation& ranges, const std::vector<std::vector<double>>& input_error,
                             const Setting& setting, OperandCache& operands, bool in_double_double = false,
                             SourceRadii* sources = nullptr);

}  // namespace driftbound::bounds
