#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/bound_checks.hpp"
#include "support/tally.hpp"
#include "support/theorems.hpp"

namespace checks {

/// The most that sum d_i r_i (t_i / e_i)^2 is where |t_i| <= e_i and the sum of squares is at most the norm's: those
/// that gain most go as far as they can.
inline Real most_left_over(const std::vector<double>& d, const std::vector<double>& r, const std::vector<double>& e,
                           double norm) {
  std::vector<std::size_t> order(d.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto gain = [&](std::size_t i) { return abs(Real(d[i])) * Real(r[i]) / (Real(e[i]) * Real(e[i])); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return gain(b) < gain(a); });
  Real left = Real(norm) * Real(norm), sum;
  for (const std::size_t i : order) {
    const Real square = Real(e[i]) * Real(e[i]), step = left < square ? left : square;
    sum += gain(i) * step;
    left = left - step;
  }
  return sum;
}

/// What functions leave over by the norm of a row (T-96) against the most that there is; where that says less than the
/// whole remainders, it is at most four times as much.
struct LeftOver {
  Tally tally;
  bool is_within_four = true;
};
inline LeftOver check_remainder_by_norm(int repetitions, std::uint32_t seed) {
  Generator generator(seed);
  LeftOver found;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    const std::size_t n = 1 + generator() % 40;
    std::vector<double> d(n), r(n), e(n);
    const bool are_alike = repetition % 3 == 0;
    double squares = 0.0;
    Real whole;
    for (std::size_t i = 0; i < n; ++i) {
      d[i] = are_alike ? 1.0 : uniform(generator, -1.0, 1.0);
      e[i] = std::ldexp(uniform(generator, 0.5, 1.0), -static_cast<int>(generator() % 8));
      r[i] = e[i] * e[i] * (are_alike ? 1.0 : uniform(generator, 0.0, 1.0));
      squares += e[i] * e[i];
      whole += abs(Real(d[i])) * Real(r[i]);
    }
    const double norm = std::sqrt(squares) * uniform(generator, 0.05, 1.2);
    const Real exact = most_left_over(d, r, e, norm);
    const double bound = bounds::remainder_by_norm(d, r.data(), e.data(), norm).value();
    found.tally.add(0.0, exact, bound);
    const Real least = std::min(bound, whole.to_double());
    found.is_within_four = found.is_within_four && least <= Real(4.001) * exact + Real(1e-12);
  }
  return found;
}

}  // namespace checks
