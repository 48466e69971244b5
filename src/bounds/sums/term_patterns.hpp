#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {

// Detects sums whose rounding errors must not be modelled as random (T-75).

/// The pattern of the terms of a sum: constant, stagnant, as pattern_of() finds them; biased: in other orders the same
/// terms give errors that a bound by chance does not allow (T-133).
enum class TermPattern : char { none, constant, stagnant, biased };
std::string describe(TermPattern pattern);

/// `constant`: at least 2^4 terms, whose magnitudes differ by at most a factor of 1 + 2^-8. `stagnant`: more than 2^8
/// terms, one of them above 2^12 times the median of the others. Zeros are not counted as terms. Removes the zeros and
/// reorders the magnitudes.
/// Source:    docs/theory.md T-75
TermPattern pattern_of(std::vector<double>& magnitudes);

/// The factors of one operand of a sum of products: their largest magnitude, the number of nonzero ones, and how many
/// of these are below fixed fractions of the largest.
struct FactorSizes {
  static constexpr int splits = 3;
  double largest = 0.0;
  std::int64_t nonzero = 0;
  std::int64_t below[splits] = {};  ///< fraction s: 2^-(4 + 2 s) for left factors, 2^-(8 - 2 s) for right ones
};
FactorSizes left_sizes(std::span<const double> magnitudes);
FactorSizes right_sizes(std::span<const double> magnitudes);

/// Whether it is proven that a sum of `length` products of these factors is not stagnant. False: undecided.
/// Source:    docs/theory.md T-95
bool cannot_stagnate(const FactorSizes& left, const FactorSizes& right, std::int64_t length);

/// right_sizes() of every column of the matrix that starts at `offset` in b.
/// Shapes:    b as the right operand of the plan; result [n]
std::vector<FactorSizes> right_columns(const ProductPlan& plan, std::int64_t offset, std::span<const double> b);

/// right_columns() of all matrices of a right operand, by offset.
using RightColumns = std::map<std::int64_t, std::vector<FactorSizes>>;

/// pattern_of() for every sum of a product. All terms are examined only where a few terms and T-95 leave it undecided.
/// Shapes:    a, b as the operands of the plan; `columns` by offset, as right_columns() gives them, or null; result
///            [batches * m * n]
/// Source:    docs/theory.md T-75
std::vector<TermPattern> patterns_of(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                                     const RightColumns* columns = nullptr);

}  // namespace driftbound::bounds
