#pragma once

#include <span>
#include <vector>

namespace driftbound::bounds {

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

}  // namespace driftbound::bounds
