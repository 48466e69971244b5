#pragma once

#include <vector>

#include "bounds/adjoint/sweep.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// For every value of the flat graph the sum of magnitudes behind each element: sum |a b| + |beta c| of a product, sum
/// |x| of a sum, |y| elsewhere. Approximate.
/// Source:    docs/theory.md T-79
std::vector<std::vector<double>> approx_magnitudes(const Program& program, const Shadow& shadow,
                                                   const Setting& setting);

/// K of every layer for the target c, from the adjoint d that belongs to it. Approximate.
/// Shapes:    `adjoints` and `magnitudes` by value
/// Source:    docs/theory.md T-79
Condition approx_condition(const Program& program, const Shadow& shadow, const Direction& c,
                           const std::vector<std::vector<double>>& adjoints,
                           const std::vector<std::vector<double>>& magnitudes);

}  // namespace driftbound::bounds
