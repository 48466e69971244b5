#pragma once

#include <cstdint>
#include <vector>

#include "bounds/adjoint/radii.hpp"

namespace driftbound::bounds {

/// By value, one number an element; empty: all 0 (of amplitudes), nothing known (of radii).
using ByValue = std::vector<std::vector<double>>;

/// One drawing of random directions.
struct Drawing {
  std::int64_t directions = 0;
  double chi = 0.0;  ///< of the sum of their squares: sketch_quantile()
  std::uint64_t seed = 0;
};

/// Upper bounds of what sources of at most these amplitudes move the values that vary, in the network with these slopes
/// instead of its functions.
/// Shapes:    `slopes` as Deviation::slopes; `importance` one positive number a value: where noise is to be strong;
///            radii empty for values that do not vary
/// Guarantee: one of them fails with no more than the probability of drawing.chi, over the random bits
/// Source:    docs/theory.md T-78
ByValue radii_by_directions(const Program& program, const Shadow& shadow,
                            const std::vector<std::vector<std::vector<double>>>& slopes, const ByValue& amplitude,
                            const std::vector<double>& importance, const Drawing& drawing, const Setting& setting);

}  // namespace driftbound::bounds
