#include "bounds/one_sided.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/matrix.hpp"
#include "bounds/rules.hpp"
#include "evaluate/product.hpp"

namespace driftbound::bounds {
namespace {

/// Squares of all factors.
std::vector<double> all_squares(const SignedSquares& factors) {
  std::vector<double> squares = magnitudes(factors.known);
  for (std::size_t i = 0; i < factors.open.size(); ++i) squares[i] += factors.open[i];  // one of them is 0
  return squares;
}

void add_to(std::vector<double>& sum, const std::vector<double>& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (Magnitude(sum[i]) + Magnitude(more[i])).value();
}

}  // namespace

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

std::vector<double> one_sided_squares(const ProductPlan& plan, const SignedSquares& a, const SignedSquares& b,
                                      std::span<const double> squares, const Rules& rules, int threads) {
  PackedMatrices<double> packed;
  pack_missing<double>(plan, b.known, packed);
  const std::vector<double> difference = multiply<double>(plan, a.known, packed, fused_chain, threads);
  std::vector<double> open(squares.size(), 0.0);
  if (!a.open.empty()) add_to(open, product_up(plan, a.open, all_squares(b), rules, threads));
  if (!b.open.empty()) add_to(open, product_up(plan, all_squares(a), b.open, rules, threads));
  std::vector<double> result(squares.begin(), squares.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double sum = 0.5 * (squares[i] + std::abs(difference[i])) + 0.5 * open[i];
    result[i] = std::min(squares[i], rules.outward(sum, plan.k + 4, plan.k));
  }
  return result;
}

}  // namespace driftbound::bounds
