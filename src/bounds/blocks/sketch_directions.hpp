#pragma once

#include <cstdint>
#include <vector>

#include "bounds/adjoint/radii.hpp"

namespace driftbound::bounds {

/// By value, one number per element. Empty: all 0 (amplitudes), or unknown (radii).
using ByValue = std::vector<std::vector<double>>;

/// Parameters of one draw of random directions.
struct Drawing {
  std::int64_t directions = 0;
  double chi = 0.0;  ///< quantile of the sum of their squares: sketch_quantile()
  std::uint64_t seed = 0;
};

/// Upper bounds of the changes of all values that depend on the inputs, caused by sources of at most these amplitudes
/// in the linearised network with these slopes.
/// Shapes:    `slopes` as Deviation::slopes; `importance` one positive number per value, the root mean square of an
///            adjoint; radii empty for values that do not depend on the inputs
/// Guarantee: each radius fails with at most the probability of drawing.chi, over the random bits
/// Source:    docs/theory.md T-78
ByValue radii_by_directions(const Program& program, const Shadow& shadow,
                            const std::vector<std::vector<std::vector<double>>>& slopes, const ByValue& amplitude,
                            const std::vector<double>& importance, const Drawing& drawing, const Setting& setting);

}  // namespace driftbound::bounds
