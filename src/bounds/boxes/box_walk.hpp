#pragma once

#include "bounds/adjoint/radii.hpp"
#include "bounds/theorems/double_double.hpp"

namespace driftbound::bounds {

/// Computes the deviation of every run from the exact network, both at the same point, for all points of a box around
/// the shadow's inputs. `ranges`: the deviation of the exact network in the box from the shadow. `in_double_double`:
/// the runs are those in double-double arithmetic (T-114), not those of the setting's arithmetic. `sources`: if not
/// null, the radii of T-117 are computed too.
/// Shapes:    `input_error` by position in the graph's inputs: bound of the error of reading a point
/// Guarantee: as body_rounding()
/// Source:    docs/theory.md T-77, T-117
Deviation deviation_over_box(Trajectory trajectory, const Program& program, const Shadow& shadow,
                             const Deviation& ranges, const std::vector<std::vector<double>>& input_error,
                             const Setting& setting, OperandCache& operands, bool in_double_double = false,
                             SourceRadii* sources = nullptr);

}  // namespace driftbound::bounds
