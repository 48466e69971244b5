#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/nodes/transpose.hpp"

namespace driftbound::bounds {

// Elementwise products and scattered sums of an adjoint sweep, with bounds of their rounding errors (defects).

/// Sets the defect of every element to infinity whose value is not finite or whose defect is NaN.
/// Source:    docs/theory.md T-64
void judge_finiteness(Transposed& share);

/// Returns slopes_i d_i for every i, with the defects.
/// Source:    docs/theory.md T-64
Transposed elementwise_share(std::span<const double> slopes, std::span<const double> d);

/// Computes, for every element of an operand, a sum of any number of terms slope * d.
/// Source:    docs/theory.md T-64
class SharedElements {
public:
  explicit SharedElements(std::size_t size) : sums_(size), sizes_(size), terms_(size), rounded_(size) {}

  /// Adds slope * d to the sum of an element.
  void add(std::size_t element, double slope, double d);
  Transposed result() &&;

private:
  std::vector<double> sums_, sizes_;           ///< by element: sums of the terms, and of their magnitudes
  std::vector<std::int64_t> terms_, rounded_;  ///< by element: numbers of terms, and of terms that are rounded products
};

}  // namespace driftbound::bounds
