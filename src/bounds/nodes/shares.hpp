#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/nodes/transpose.hpp"

namespace driftbound::bounds {

/// Where a value is not finite its defect becomes infinite.
/// Source:    docs/theory.md T-64
void judge_finiteness(Transposed& share);

/// s_i d_i, one term an element.
/// Source:    docs/theory.md T-64
Transposed elementwise_share(std::span<const double> slopes, std::span<const double> d);

/// Sums of s d, any number of terms for every element of an operand.
/// Source:    docs/theory.md T-64
class SharedElements {
public:
  explicit SharedElements(std::size_t size) : sums_(size), sizes_(size), terms_(size), rounded_(size) {}

  void add(std::size_t element, double slope, double d);
  Transposed result() &&;

private:
  std::vector<double> sums_, sizes_;           ///< of the terms and of their magnitudes
  std::vector<std::int64_t> terms_, rounded_;  ///< how many, and how many of them are rounded products
};

}  // namespace driftbound::bounds
