#pragma once

#include <cstdint>

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

// Rounding errors of sums of products in a matrix unit (T-21).

/// One sum of products as a matrix unit forms it.
struct BlockSum {
  std::int64_t length = 0;    ///< K: number of products, exact zeros included
  std::int64_t products = 0;  ///< n: upper bound of the number of nonzero products
  Magnitude total;            ///< S: sum of the products' magnitudes
  Magnitude reach;            ///< W, by alignment_reach()
};

/// Upper bounds of the size of one part of a sum.
struct PartSize {
  std::int64_t products = 0;  ///< n_L: number of nonzero products
  std::int64_t steps = 0;     ///< N_L: number of steps that add a nonzero product
};

/// The largest magnitude of a row of A or a column of B, at least the smallest normal number, and whether any of its
/// elements is 0 or subnormal.
struct LineRange {
  double largest = 0.0;
  bool has_small = false;
};

inline namespace theorems {

/// Upper bound N of the number of steps that add a nonzero product.
/// Source:    docs/theory.md T-21
std::int64_t block_steps(std::int64_t length, std::int64_t products, const TensorCore& unit);

/// c such that cutting aligned addends changes the sum by at most c S, for steps whose largest addend is neither zero
/// nor subnormal.
/// Source:    docs/theory.md T-21
Magnitude alignment_factor(std::int64_t products, std::int64_t steps, const Machine& machine);

/// Fraction bits of a sum that the next step of the unit still reads.
/// Source:    docs/theory.md T-21
int kept_bits(const TensorCore& unit);

/// c = steps 2^-g, g = kept_bits(): cutting the sums of so many steps changes the result by at most c S. Adding up the
/// parts in float32 costs no more than that per part.
/// Source:    docs/theory.md T-21
Magnitude cutting_factor(std::int64_t steps, const Machine& machine);

/// Upper bounds of the products and steps of one part, if the whole sum takes `steps` steps.
/// Source:    docs/theory.md T-21
PartSize longest_part(const BlockSum& sum, std::int64_t steps, const TensorCore& unit);

/// W: upper bound of the power of two to which zeros, subnormal numbers and padding can align the other addends of a
/// step.
/// Source:    docs/theory.md T-21
Magnitude alignment_reach(const LineRange& row, const LineRange& column, double smallest_normal);

/// A: the error by such alignments and by cutting sums below the normal range.
/// Source:    docs/theory.md T-21
Magnitude alignment_term(const BlockSum& sum, std::int64_t steps, const Machine& machine);

/// |y - t| if the last operation of such a sum, a cut or a rounding to nearest, has the exact result t and is stored as
/// y.
/// Source:    docs/theory.md T-21
Magnitude last_cut_error(double y, const Machine& machine);

/// parts max(0, 2^-24 - 2^-F), F the fraction bits: adding so many further parts to nearest costs at most this times S
/// more than their first steps save.
/// Source:    docs/theory.md T-21
Magnitude cost_of_parts(std::int64_t parts, const TensorCore& unit);

/// (factor largest + rest) / (1 - factor): bound of every D with D <= factor (largest + D) + rest. Infinite if
/// factor >= 1/2.
/// Source:    docs/theory.md T-21
Magnitude with_own_growth(Magnitude factor, Magnitude largest, Magnitude rest);

}  // namespace theorems

}  // namespace driftbound::bounds
