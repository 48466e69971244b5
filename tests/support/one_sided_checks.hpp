#pragma once

#include <vector>

#include "bounds/matrices/matrix.hpp"
#include "bounds/sums/one_sided.hpp"
#include "support/bound_checks.hpp"

namespace checks {

/// Squares of terms of one sign, of factors at the ends of their radii, against what the rule allows (T-68).
inline Tally check_one_sided(int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  Tally tally;
  const auto draw = [&](std::vector<double>& factors, std::vector<double>& radii, std::vector<double>& largest) {
    const bool moves = generator() % 2 == 0;
    for (std::size_t i = 0; i < factors.size(); ++i) {
      const int kind = static_cast<int>(generator() % 6);
      factors[i] = kind == 0 ? 0.0 : uniform(generator, kind == 1 ? 0.0 : -1.0, 1.0);
      radii[i] = moves ? uniform(generator, 0.0, kind < 3 ? 0.1 : 1.0) : 0.0;
      const double sum = (std::abs(factors[i]) + radii[i]) * (1.0 + 0x1p-50);
      largest[i] = sum * sum * (1.0 + 0x1p-50);
    }
  };
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::int64_t m = 2, k = 1 + static_cast<std::int64_t>(generator() % 7), n = 3;
    const ProductPlan plan = plan_product(op::MatMul{}, {m, k}, {k, n});
    std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(k * n));
    std::vector<double> a_radii = a, b_radii = b, a_largest = a, b_largest = b;
    draw(a, a_radii, a_largest);
    draw(b, b_radii, b_largest);
    const std::vector<double> squares = bounds::product_up(plan, a_largest, b_largest, 1);
    const std::vector<double> bound = bounds::one_sided_squares(
        plan, bounds::signed_squares(a, a_radii, a_largest), bounds::signed_squares(b, b_radii, b_largest), squares, 1);
    const auto end_of = [&](double x, double radius) {
      return Real(x) + Real(generator() % 2 == 0 ? radius : -radius);
    };
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        Real positive, negative;
        for (std::int64_t l = 0; l < k; ++l) {
          const std::size_t of_a = plan.a_index(0, i, l), of_b = plan.b_index(0, l, j);
          const Real term = end_of(a[of_a], a_radii[of_a]) * end_of(b[of_b], b_radii[of_b]);
          (Real() < term ? positive : negative) += term * term;
        }
        tally.add(0.0, positive < negative ? negative : positive, bound[static_cast<std::size_t>(i * n + j)]);
      }
    }
  }
  return tally;
}

}  // namespace checks
