#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {

struct Rules;

/// Squares of the magnitudes of a product's factors, by what is known of their signs.
struct SignedSquares {
  std::vector<double> known;  ///< with the factor's sign, where every run has that one; 0 elsewhere
  std::vector<double> open;   ///< without one, where the sign is not known; empty: nowhere
};

/// Of factors as they are.
SignedSquares signed_squares(std::span<const double> factors, std::vector<double> squares);

/// Of factors within radii (empty: 0) of these.
SignedSquares signed_squares(std::span<const double> factors, std::span<const double> radii,
                             std::vector<double> squares);

/// Upper bounds of the squares of the terms of each sum that may be positive, added up, and of those that may be
/// negative, whichever is larger. `squares`: of all of its terms, by product_up().
/// Shapes:    a, b as the operands of the plan; squares and result [batches * m * n]
/// Source:    docs/theory.md T-68
std::vector<double> one_sided_squares(const ProductPlan& plan, const SignedSquares& a, const SignedSquares& b,
                                      std::span<const double> squares, const Rules& rules, int threads);

}  // namespace driftbound::bounds
