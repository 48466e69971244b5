#pragma once

#include <cstdint>

#include "bounds/arithmetic/machine.hpp"

namespace driftbound::bounds {

/// One sum of products as a matrix unit forms it.
struct BlockSum {
  std::int64_t length = 0;    ///< products in all, exact zeros included
  std::int64_t products = 0;  ///< upper bound of those that are not 0
  Magnitude total;            ///< their magnitudes summed
  Magnitude reach;            ///< what zeros, subnormal numbers and padding can align the others to
};

/// What one part of a sum can hold.
struct PartSize {
  std::int64_t products = 0;  ///< that are not 0
  std::int64_t steps = 0;     ///< that add one of them
};

/// The largest magnitude of a row of A or a column of B, at least the smallest normal number, and whether any of its
/// elements is 0 or subnormal.
struct LineRange {
  double largest = 0.0;
  bool has_small = false;
};

inline namespace theorems {

/// Upper bound of the steps that add a product which is not 0.
/// Source:    docs/theory.md T-21
std::int64_t block_steps(std::int64_t length, std::int64_t products, const TensorCore& unit);

/// c such that cutting off aligned addends costs at most c S where the largest of them is neither zero nor subnormal.
/// Source:    docs/theory.md T-21
Magnitude alignment_factor(std::int64_t products, std::int64_t steps, const Machine& machine);

/// Fraction bits of a sum that the next step of the unit still reads.
/// Source:    docs/theory.md T-21
int kept_bits(const TensorCore& unit);

/// c such that cutting the sums of so many steps costs at most c S, and adding the parts no more.
/// Source:    docs/theory.md T-21
Magnitude cutting_factor(std::int64_t steps, const Machine& machine);

/// Upper bounds of both, where `steps` of the unit add the products of the whole sum.
/// Source:    docs/theory.md T-21
PartSize longest_part(const BlockSum& sum, std::int64_t steps, const TensorCore& unit);

/// The largest power of two to which zeros, subnormal numbers and padding align the other addends of a step.
/// Source:    docs/theory.md T-21
Magnitude alignment_reach(const LineRange& row, const LineRange& column, double smallest_normal);

/// What such alignments, and sums cut below the normal range, add.
/// Source:    docs/theory.md T-21
Magnitude alignment_term(const BlockSum& sum, std::int64_t steps, const Machine& machine);

/// |y - t| for the last operation of such a sum, be it a cut or a rounding to nearest, and storing its result as y.
/// Source:    docs/theory.md T-21
Magnitude last_cut_error(double y, const Machine& machine);

/// What adding one part more to nearest costs beyond what its first step saves, over the sum of magnitudes.
/// Source:    docs/theory.md T-21
Magnitude cost_of_parts(std::int64_t parts, const TensorCore& unit);

/// D with D <= factor (largest + D) + rest; infinite where factor >= 1/2.
/// Source:    docs/theory.md T-21
Magnitude with_own_growth(Magnitude factor, Magnitude largest, Magnitude rest);

}  // namespace theorems

}  // namespace driftbound::bounds
