#pragma once

#include <cstdint>

#include "bounds/arithmetic/machine.hpp"
#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

/// A sum of products that a matrix unit may add up, or float32 additions in any order.
struct UnitSum {
  std::int64_t products = 0;  ///< that are not 0
  std::int64_t steps = 0;     ///< of the unit, that add one of them
  Magnitude total;            ///< their magnitudes summed
  Magnitude largest;          ///< M: no sum of some of them is larger
  Magnitude absolute;         ///< errors that do not grow with them
};

/// |computed - exact|, by what partial sums can be at most; infinite for sums so long that it says nothing.
/// Source:    docs/theory.md T-21 (c)
Magnitude unit_sum_error(const UnitSum& sum, const Machine& machine);

}  // namespace driftbound::bounds
