#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

// Common error estimates that are not bounds, for comparison with bounds.

/// Returns the unit roundoff, to nearest, of the arithmetic's input format: the one commonly used in gamma_n.
double folklore_unit_roundoff(const ArithmeticModel& arithmetic);

/// Returns f |y|, where f is the sum of gamma_n over the numbers of products n in `fan_ins`. This common estimate of
/// the forward error is not a bound. Elements that are not finite give infinity.
/// Guarantee: heuristic; the error of the dot product (1, 2^-24, -1) . (1, 1, 1) in float32 exceeds it
/// Source:    docs/theory.md T-19
Tensor<double> estimate_seed_gamma(std::span<const std::int64_t> fan_ins, double unit_roundoff,
                                   const Tensor<double>& y);

}  // namespace driftbound::bounds
