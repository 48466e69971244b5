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

/// Elements of a softmax whose weights are next to nothing wherever the arguments lie, as those of a mask.
struct HiddenShares {
  std::vector<Magnitude> largest;  ///< by element: bound of the weight; 0 for elements that are not hidden
  std::vector<char> is_hidden;
  Magnitude total;  ///< of all hidden elements together
  bool any = false;
};

inline namespace theorems {

/// The elements i with x_i + e_i <= max_j (x_j - e_j) - 64. Their exact weights are at most e^(x_i + e_i - max_j (x_j -
/// e_j)), for every argument within the radii e.
/// Shapes:    x, e [n]
/// Source:    docs/theory.md T-131
HiddenShares hidden_shares(std::span<const double> x, std::span<const double> e);

/// kappa of T-60 for an element that is seen, and for a hidden one. `remainder`: by the softmax over the elements seen;
/// `by_slopes`: sum over hidden elements (or all) of stored weight times radius; `p`, `e`: the element's own.
/// Source:    docs/theory.md T-131
Magnitude remainder_beside_hidden(double remainder, double p, Magnitude by_slopes, Magnitude hidden_total);
Magnitude remainder_of_hidden(Magnitude largest, double p, double e, Magnitude by_slopes);

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
