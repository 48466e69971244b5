#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bounds/adjoint/radii.hpp"

namespace driftbound::bounds {

/// How a sketch is drawn.
struct SketchOptions {
  std::int64_t directions = 96;        ///< that radii are read off
  std::int64_t pilot_directions = 24;  ///< that amplitudes are guessed with
  double failure_probability = 1e-9;   ///< of all attempts together
  int attempts = 2;
  std::uint64_t seed = 78;
};

/// Radii of every value at once, from random directions that are pushed through the Jacobians at the shadow: where
/// radii from node to node multiply worst cases, these follow what errors really do. Elements that radii from node to
/// node bound better keep those.
/// Shapes:    as deviation_of()
/// Guarantee: probabilistic: all of it holds with probability 1 - options.failure_probability over the random bits,
///            which are taken for independent of the network and of its inputs; else as deviation_of(). Empty where
///            remainders are too large for the amplitudes that were drawn, or the adjoints' slopes depend on the radii
/// Tightness: one and a half to four times the sum of |d| times local errors
/// Source:    docs/theory.md T-78
std::optional<Deviation> sketched(Trajectory trajectory, const Program& program, const Shadow& shadow,
                                  const std::vector<std::vector<double>>& input_error, const Setting& setting,
                                  OperandCache& operands, const SketchOptions& options = {});

}  // namespace driftbound::bounds
