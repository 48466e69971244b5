#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/theorems/functions.hpp"

namespace driftbound::bounds {

// Rounding errors of a softmax, at recorded arguments and at all arguments within radii.

/// A row of a softmax that is not recorded.
struct UnrecordedRow {
  std::vector<double> centres;  ///< of the arguments x
  std::vector<double> radii;    ///< bounds of |x - centre| in the run
  std::vector<double> results;  ///< upper bounds of the exact softmax of the run's x
};

inline namespace theorems {

/// Number of additions on the longest path of a sum of n stored numbers; n - 1 if the order is unknown.
/// Source:    docs/theory.md T-17
std::int64_t sum_height(const SummationOrder& order, std::int64_t n);

/// Bounds of the rounding errors of one row p_i = e^(x_i - m) / sum_j e^(x_j - m), evaluated with an exact maximum m,
/// rounded differences, exp with the error `accuracy`, a sum with a relative error of at most `sum_factor`, and one
/// division.
/// Shapes:    x, p, result [n]
/// Domain:    finite x; infinite if the errors of the exponentials may exceed their sum
/// Source:    docs/theory.md T-17
void softmax_error(std::span<const double> x, std::span<const double> p, FunctionError accuracy, Magnitude sum_factor,
                   const Machine& machine, std::span<double> result);

/// Bounds that hold for every x within the radii.
/// Shapes:    row, result [n]
/// Domain:    finite centres; infinite if the errors of the exponentials may exceed their sum
/// Source:    docs/theory.md T-22
void unrecorded_softmax_error(const UnrecordedRow& row, FunctionError accuracy, Magnitude sum_factor,
                              const Machine& machine, std::span<double> result);

}  // namespace theorems

}  // namespace driftbound::bounds
