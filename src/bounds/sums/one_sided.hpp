#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bounds/matrices/matrix.hpp"
#include "bounds/sums/signed_squares.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds::inline theorems {

/// Upper bounds of the squares of the terms of each sum that may be positive, added up, and of those that may be
/// negative, whichever is larger. `squares`: of all of its terms, by product_up().
/// Shapes:    a, b as the operands of the plan; squares and result [batches * m * n]
/// Source:    docs/theory.md T-68
std::vector<double> one_sided_squares(const ProductPlan& plan, const SignedSquares& a, const SignedSquares& b,
                                      std::span<const double> squares, int threads);

}  // namespace driftbound::bounds::inline theorems
