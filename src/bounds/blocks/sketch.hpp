#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bounds/adjoint/radii.hpp"

namespace driftbound::bounds {

/// Options of sketched().
struct SketchOptions {
  std::int64_t directions = 96;        ///< random directions from which radii are computed
  std::int64_t pilot_directions = 24;  ///< random directions of the pilot run, which estimates the amplitudes
  double failure_probability = 1e-9;   ///< of all attempts together
  int attempts = 2;
  std::uint64_t seed = 78;
};

/// Radii of all values from random directions, by Jacobian-vector products at the shadow. Radii that are propagated
/// node by node multiply worst cases, these do not. The result is the smaller of both radii for every element.
/// Shapes:    as deviation_of()
/// Returns:   empty if an error or a remainder is infinite, if remainders exceed the amplitudes assumed in every
///            attempt, or if the slopes depend on the radii
/// Guarantee: probabilistic: all radii hold with probability at least 1 - options.failure_probability over the random
///            bits, which are assumed to be independent of the network and its inputs; otherwise as
///            deviation_of()
/// Tightness: 1.5 to 4 times sum |d| times local errors
/// Source:    docs/theory.md T-78
std::optional<Deviation> sketched(Trajectory trajectory, const Program& program, const Shadow& shadow,
                                  const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                  OperandCache& operands, const SketchOptions& options = {});

}  // namespace driftbound::bounds
