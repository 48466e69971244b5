#include "bounds/sums/signed_squares.hpp"

#include <cmath>
#include <utility>

namespace driftbound::bounds {

SignedSquares signed_squares(std::span<const double> factors, std::vector<double> squares) {
  return signed_squares(factors, {}, std::move(squares));
}

SignedSquares signed_squares(std::span<const double> factors, std::span<const double> radii,
                             std::vector<double> squares) {
  SignedSquares result{std::move(squares), {}};
  for (std::size_t i = 0; i < factors.size(); ++i) {
    double& square = result.known[i];
    const bool has_sign = radii.empty() || std::abs(factors[i]) >= radii[i];
    if (!has_sign) {
      result.open.resize(factors.size(), 0.0);
      std::swap(square, result.open[i]);
    }
    square = std::copysign(square, factors[i]);
  }
  return result;
}

}  // namespace driftbound::bounds
