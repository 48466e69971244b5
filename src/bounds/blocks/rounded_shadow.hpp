#pragma once

#include <cstdint>
#include <vector>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/adjoint/sweep.hpp"

namespace driftbound::bounds {

/// The network with its roundings to narrow formats made, in double, and how far every run can be from that.
struct RoundedShadow {
  NarrowedProgram program;
  Shadow shadow;
  Deviation deviation;
  std::vector<std::int64_t> ambiguous;  ///< by node of the original graph: roundings there that runs may do differently
};

/// Shapes:    inputs and their errors by position in the graph's inputs
/// Guarantee: as body_rounding(), for runs that read operands so and make every other rounding: conditions in
/// docs/assumptions.md
/// Source:    docs/theory.md T-76
RoundedShadow rounded_shadow_of(const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                                const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                OperandCache& operands);

/// The same where only what does not depend on the inputs is rounded: weights. Roundings of other numbers are local
/// errors of a run, its `added`, and not `ambiguous`.
/// Source:    docs/theory.md T-61, T-75
RoundedShadow rounded_constants_of(const NarrowedProgram& narrowed, const std::vector<Tensor<double>>& inputs,
                                   const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                   OperandCache& operands);

/// An upper bound of |c.(run - rounded shadow)| for every row, c one element or the difference of two: by the adjoint,
/// or by the radii where they are smaller.
/// Source:    docs/theory.md T-60, T-76
Certificate distance_of_runs(const RoundedShadow& rounded, const std::vector<Seed>& seeds, const Setting& setting);

}  // namespace driftbound::bounds
