#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/matrices/matrix.hpp"
#include "bounds/sums/signed_squares.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds::inline theorems {

/// Per sum: upper bound of the larger of two sums of squares, that of the terms that may be positive and that of those
/// that may be negative. `squares` are the sums of squares of all terms, by product_up().
/// Shapes:    a, b as the operands of the plan; squares and result [batches * m * n]
/// Source:    docs/theory.md T-68
std::vector<double> one_sided_squares(const ProductPlan& plan, const SignedSquares& a, const SignedSquares& b,
                                      std::span<const double> squares, int threads);

}  // namespace driftbound::bounds::inline theorems
