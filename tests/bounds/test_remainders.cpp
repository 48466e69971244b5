#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "bounds/adjoint/refined_radii.hpp"
#include "bounds/adjoint/row_groups.hpp"
#include "bounds/rules.hpp"
#include "support/approach.hpp"
#include "support/bound_checks.hpp"
#include "support/tally.hpp"

// What functions leave over, by radii and the norm of a row (T-96), and rows with the same zeros.

using namespace driftbound;
using namespace checks;

namespace {

/// The most that sum d_i r_i (t_i / e_i)^2 is where |t_i| <= e_i and the sum of squares is at most the norm's: those
/// that gain most go as far as they can.
Real most_left_over(const std::vector<double>& d, const std::vector<double>& r, const std::vector<double>& e,
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

}  // namespace

TEST_CASE("what a row leaves over by its norm is at least the largest there is, and at most four times (T-96)") {
  Generator generator(91);
  double closest = 0.0;
  for (int repetition = 0; repetition < 400 * test_multiplier(); ++repetition) {
    const std::size_t n = 1 + generator() % 40;
    std::vector<double> d(n), r(n), e(n);
    const bool are_alike = repetition % 3 == 0;
    double squares = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      d[i] = are_alike ? 1.0 : uniform(generator, -1.0, 1.0);
      e[i] = std::ldexp(uniform(generator, 0.5, 1.0), -static_cast<int>(generator() % 8));
      r[i] = e[i] * e[i] * (are_alike ? 1.0 : uniform(generator, 0.0, 1.0));
      squares += e[i] * e[i];
    }
    const double norm = std::sqrt(squares) * uniform(generator, 0.05, 1.2);
    const Real exact = most_left_over(d, r, e, norm);
    const double bound = bounds::remainder_by_norm(bounds::default_rules(), d, r.data(), e.data(), norm).value();
    CHECK(exact <= Real(bound));
    Real whole;
    for (std::size_t i = 0; i < n; ++i) whole += abs(Real(d[i])) * Real(r[i]);
    CHECK(Real(std::min(bound, whole.to_double())) <= Real(4.001) * exact + Real(1e-12));
    closest = std::max(closest, (exact / Real(bound)).to_double());
  }
  CHECK_APPROACH("T-96", closest, 1.0);
}

TEST_CASE("rows of the same sample are found together, with the columns that any of them uses") {
  const std::vector<double> d = {0, 1, 0, 0, 0, 2, 0, 0, 3, 0, 0, 0};
  const bounds::RowGroups groups(d, std::vector<std::size_t>{5, 2, 5});
  REQUIRE(groups.groups().size() == 2);
  const SparseRows &first = groups.groups()[0], &second = groups.groups()[1];
  CHECK(std::vector<std::uint32_t>(first.rows, first.rows + first.row_count) == std::vector<std::uint32_t>{1});
  CHECK(std::vector<std::uint32_t>(first.columns, first.columns + first.column_count) == std::vector<std::uint32_t>{1});
  CHECK(std::vector<std::uint32_t>(second.rows, second.rows + second.row_count) == std::vector<std::uint32_t>{0, 2});
  CHECK(std::vector<std::uint32_t>(second.columns, second.columns + second.column_count) ==
        std::vector<std::uint32_t>{0, 1});
  CHECK(groups.are_sparse());
  CHECK_FALSE(bounds::RowGroups(std::vector<double>(12, 1.0), std::vector<std::size_t>{1, 1, 1}).are_sparse());
}
