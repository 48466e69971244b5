#include "bounds/sums/one_sided.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/matrices/matrix.hpp"
#include "bounds/sums/signed_squares.hpp"
#include "bounds/theorems/outward.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// Squares of all factors, whether their signs are known or not.
std::vector<double> all_squares(const SignedSquares& factors) {
  std::vector<double> squares = magnitudes(factors.known);
  for (std::size_t i = 0; i < factors.open.size(); ++i) squares[i] += factors.open[i];  // exact: one of the two is 0
  return squares;
}

void add_to(std::vector<double>& sum, const std::vector<double>& more) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (Magnitude(sum[i]) + Magnitude(more[i])).value();
}

}  // namespace

std::vector<double> one_sided_squares(const ProductPlan& plan, const SignedSquares& a, const SignedSquares& b,
                                      std::span<const double> squares, int threads) {
  PackedMatrices<double> packed;
  pack_missing<double>(plan, b.known, packed);
  const std::vector<double> difference = multiply<double>(plan, a.known, packed, fused_chain, threads);
  std::vector<double> open(squares.size(), 0.0);
  if (!a.open.empty()) add_to(open, product_up(plan, a.open, all_squares(b), threads));
  if (!b.open.empty()) add_to(open, product_up(plan, all_squares(a), b.open, threads));
  std::vector<double> result(squares.begin(), squares.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double sum = 0.5 * (squares[i] + std::abs(difference[i])) + 0.5 * open[i];
    result[i] = std::min(squares[i], theorems::outward(sum, plan.k + 4, plan.k));
  }
  return result;
}

}  // namespace driftbound::bounds::inline theorems
