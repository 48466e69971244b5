#pragma once

#include <span>
#include <vector>

namespace driftbound::bounds {

/// Squares of the factors of a product, with their signs where those are known.
struct SignedSquares {
  std::vector<double> known;  ///< the square with the factor's sign if that is the same in every run, else 0
  std::vector<double> open;   ///< the square if the sign may differ between runs, else 0; empty if all are known
};

/// The signs are those of `factors`.
SignedSquares signed_squares(std::span<const double> factors, std::vector<double> squares);

/// Each factor lies within its radius of factors[i]; the sign is known if |factors[i]| >= radii[i]. Empty radii are 0.
SignedSquares signed_squares(std::span<const double> factors, std::span<const double> radii,
                             std::vector<double> squares);

}  // namespace driftbound::bounds
