#pragma once

#include <span>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/theorems/matrix_unit_sums.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/trace/arithmetic.hpp"

namespace driftbound::bounds {

// Products of nonnegative matrices rounded up, and properties of the rows and columns of a product's operands.

/// The summation order of the library's own products in double: the fastest one.
inline constexpr SummationOrder fused_chain{SummationOrder::Kind::sequential, 0, true};

/// Upper bounds of sum_k a_ik b_kj for nonnegative a and b, laid out as the operands of the plan.
/// Shapes:    [batches * m * n]
/// Tightness: relative excess at most (3 k + 6) 2^-53 where nothing underflows
/// Source:    docs/theory.md T-08
std::vector<double> product_up(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                               int threads);

/// Number of nonzero elements of every row of A and every column of B.
struct NonzeroCounts {
  std::vector<std::int64_t> rows;     ///< [batches * m]
  std::vector<std::int64_t> columns;  ///< [batches * n]
};
NonzeroCounts count_nonzero(const ProductPlan& plan, std::span<const double> a, std::span<const double> b);

/// The LineRange of every row of A and every column of B.
struct LineRanges {
  std::vector<LineRange> rows;     ///< [batches * m]
  std::vector<LineRange> columns;  ///< [batches * n]
};
LineRanges line_ranges(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                       double smallest_normal);

std::vector<double> magnitudes(std::span<const double> values);

}  // namespace driftbound::bounds
