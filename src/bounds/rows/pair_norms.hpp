#pragma once

#include <span>

#include "driftbound/num/magnitude.hpp"

namespace driftbound::bounds {

/// One row of an operand, and how far it moves.
struct MovingRow {
  std::span<const double> centre;
  std::span<const double> radii;  ///< upper bounds by element; empty: each is at most `norm`
  Magnitude norm;                 ///< upper bound of the 2-norm
};

/// By how much the elementwise product of two rows moves in the 2-norm.
/// Guarantee: upper bound
/// Source:    docs/theory.md T-62
Magnitude norm_of_moving_product(const MovingRow& a, const MovingRow& b);

/// The same for the quotient a / b; infinite if a divisor may be 0.
/// Guarantee: upper bound
/// Source:    docs/theory.md T-62
Magnitude norm_of_moving_quotient(const MovingRow& a, const MovingRow& b);

}  // namespace driftbound::bounds
