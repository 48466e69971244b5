#pragma once

#include <vector>

#include "bounds/adjoint/sweep.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

// The condition numbers of layers (docs/theory.md T-79), a diagnostic.

/// Returns S of T-79 for every element of a node's result: |alpha| sum |a b| + |beta c| for a product, sum |x| for a
/// ReduceSum, |y| elsewhere. Approximate.
/// Source:    docs/theory.md T-79
std::vector<double> approx_magnitudes(const NodeView& view, const Setting& setting);
/// Returns them for every value that varies.
/// Shapes:    by value of the flat graph; empty for graph inputs and for values that do not vary
/// Source:    docs/theory.md T-79
std::vector<std::vector<double>> approx_magnitudes(const Program& program, const Shadow& shadow,
                                                   const Setting& setting);

/// Returns K of every layer for the target with direction c. Approximate.
/// Shapes:    by value: `adjoints`, as sweep() returns them for c; `magnitudes`, as approx_magnitudes() returns them
/// Source:    docs/theory.md T-79
Condition approx_condition(const Program& program, const Shadow& shadow, const Direction& c,
                           const std::vector<std::vector<double>>& adjoints,
                           const std::vector<std::vector<double>>& magnitudes);

}  // namespace driftbound::bounds
