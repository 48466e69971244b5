#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// The unit roundoff that the folklore puts into gamma: the format of the operands, to nearest.
double folklore_unit_roundoff(const ArithmeticModel& arithmetic);

/// gamma_n |y| with n products and unit roundoff u: what is often taken for a bound and is none.
/// Guarantee: heuristic; (1, 2^-24, -1) . (1, 1, 1) exceeds it
/// Source:    docs/theory.md T-19
Tensor<double> estimate_seed_gamma(std::span<const std::int64_t> fan_ins, double unit_roundoff,
                                   const Tensor<double>& y);

}  // namespace driftbound::bounds
