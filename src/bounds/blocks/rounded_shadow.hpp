#pragma once

#include <cstdint>
#include <vector>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/adjoint/sweep.hpp"

namespace driftbound::bounds {

/// The rounded shadow of T-76: the network in double with its roundings to narrow formats executed, and bounds of the
/// distance of every run from it.
struct RoundedShadow {
  NarrowedProgram program;
  Shadow shadow;
  Deviation deviation;
  std::vector<std::int64_t> ambiguous;  ///< by node of the original graph: number of undecided roundings
};

/// Computes the rounded shadow and its deviation.
/// Shapes:    inputs and their errors by position in the graph's inputs
/// Guarantee: as body_rounding(), for runs that read operands as `narrowed` says and omit no rounding;
///            see docs/assumptions.md
/// Source:    docs/theory.md T-76
RoundedShadow rounded_shadow_of(const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                                const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                OperandCache& operands);

/// The same, but only values that do not depend on the inputs (weights) are rounded in the shadow. Roundings of other
/// values are local errors of the run (Deviation::added) and do not count as ambiguous.
/// Source:    docs/theory.md T-61, T-75
RoundedShadow rounded_constants_of(const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                                   const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                   OperandCache& operands);

/// An upper bound of |c.(run - rounded shadow)| for every row, c one element or the difference of two: the smaller of
/// the bound by the adjoint and that by radii.
/// Source:    docs/theory.md T-60, T-76
Certificate distance_of_runs(const RoundedShadow& rounded, const std::vector<Seed>& seeds, const Setting& setting);

}  // namespace driftbound::bounds
