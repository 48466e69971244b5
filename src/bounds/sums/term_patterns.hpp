#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {

/// Why the roundings of one sum are no matter of chance.
enum class TermPattern : char { none, constant, stagnant };
std::string describe(TermPattern pattern);

/// Whether 2^4 terms or more have one magnitude within a factor of 1 + 2^-8 (constant), or one of more than 2^8 terms
/// is above 2^12 times the median of the others (stagnant). Zeros are no terms. The magnitudes are reordered. Source:
/// docs/theory.md T-75
TermPattern pattern_of(std::vector<double>& magnitudes);

/// Factors of one side of a sum: how many are not 0, and how many of those lie below fixed shares of the largest.
struct FactorSizes {
  static constexpr int splits = 3;
  double largest = 0.0;
  std::int64_t nonzero = 0;
  std::int64_t below[splits] = {};  ///< the left factors of a product share 2^-(4 + 2 s), the right ones 2^-(8 - 2 s)
};
FactorSizes left_sizes(std::span<const double> magnitudes);
FactorSizes right_sizes(std::span<const double> magnitudes);

/// Whether a sum of `length` products of these factors is not stagnant for certain.
/// Source:    docs/theory.md T-95
bool cannot_stagnate(const FactorSizes& left, const FactorSizes& right, std::int64_t length);

/// right_sizes() of every column of the matrix at an offset of b.
/// Shapes:    b magnitudes as the right operand of the plan; result [n]
std::vector<FactorSizes> right_columns(const ProductPlan& plan, std::int64_t offset, std::span<const double> b);

/// Those of all matrices of a right operand, by offset.
using RightColumns = std::map<std::int64_t, std::vector<FactorSizes>>;

/// pattern_of() for every sum of a product; its terms are looked at where few of them and T-95 leave a doubt.
/// Shapes:    a, b as the operands of the plan; `columns` by offset, as right_columns() gives them, or null; result
///            [batches * m * n]
/// Source:    docs/theory.md T-75
std::vector<TermPattern> patterns_of(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                                     const RightColumns* columns = nullptr);

}  // namespace driftbound::bounds
