#pragma once

#include <cstdint>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

/// A sum of products that is computed either by a matrix unit or by float32 additions in any order.
struct UnitSum {
  std::int64_t products = 0;  ///< number of nonzero products
  std::int64_t steps = 0;     ///< number of the unit's steps that add a nonzero product
  Magnitude total;            ///< sum of the products' magnitudes
  Magnitude largest;          ///< M, the largest possible partial sum in magnitude
  Magnitude absolute;         ///< the part of the error that does not depend on the products' sizes
};

/// Upper bound of |computed - exact| by the largest possible partial sum; infinite if the error factor is 1/2 or more.
/// Source:    docs/theory.md T-21 (c)
Magnitude unit_sum_error(const UnitSum& sum, const Machine& machine);

}  // namespace driftbound::bounds
