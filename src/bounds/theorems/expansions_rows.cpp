#include <algorithm>
#include <cmath>
#include <vector>

#include "bounds/arithmetic/elementary.hpp"
#include "bounds/arithmetic/numbers.hpp"
#include "bounds/theorems/expansions.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

/// The index of the largest sign x_j, and by how much another element may exceed it within the radii.
LinearExtremum extremum(std::span<const double> x, std::span<const double> e, double sign) {
  LinearExtremum result;
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (!std::isfinite(x[j]) || !std::isfinite(e[j])) return {0, Magnitude::infinite()};
    if (sign * x[j] > sign * x[result.chosen]) result.chosen = j;
  }
  const double own = sub_down(sign * x[result.chosen], e[result.chosen]);
  double highest = -infinity;
  for (std::size_t j = 0; j < x.size(); ++j) {
    if (j != result.chosen) highest = std::max(highest, add_up(sign * x[j], e[j]));
  }
  if (highest > own) result.remainder = Magnitude(sub_up(highest, own));
  return result;
}

/// Bounds for one row of a softmax whose arguments change by d, |d_i| <= e_i.
struct Row {
  std::vector<Magnitude> p;      ///< upper bounds of p
  std::vector<Magnitude> moved;  ///< upper bounds y_i of |d_i - p.d|
  Magnitude normalisation;       ///< upper bound r of log sum p_j e^(d_j - p.d)
  Magnitude misweighed;          ///< upper bound of |(stored p - p).d|
};

Row row_of(std::span<const double> p, std::span<const double> p_error, std::span<const double> e) {
  const std::size_t n = p.size();
  Row row;
  std::vector<Magnitude> after(n + 1);  // sum of p_j e_j over j >= i
  for (std::size_t j = 0; j < n; ++j)
    row.p.push_back(std::min(Magnitude(1.0), Magnitude(p[j]) + Magnitude(p_error[j])));
  for (std::size_t j = n; j-- > 0;) after[j] = after[j + 1] + row.p[j] * Magnitude(e[j]);
  Magnitude before, largest, spread;
  for (std::size_t i = 0; i < n; ++i) {
    const Magnitude rest = subtract_up(Magnitude(1.0), sub_down(p[i], p_error[i]));
    row.moved.push_back(rest * Magnitude(e[i]) + before + after[i + 1]);
    before += row.p[i] * Magnitude(e[i]);
    spread += row.p[i] * Magnitude(exp_remainder_up(row.moved[i].value()));
    row.misweighed += Magnitude(p_error[i]) * Magnitude(e[i]);
    largest = std::max(largest, Magnitude(e[i]));
  }
  row.normalisation = std::min(spread, Magnitude(0.5) * largest * largest);
  return row;
}

/// Effect of the errors of the stored p on the linear part: eta_i y_i + p_i sum_j eta_j e_j, eta = p_error.
Magnitude defect_of(const Row& row, double p, double p_error, std::size_t i) {
  return Magnitude(p_error) * row.moved[i] + Magnitude(p) * row.misweighed;
}

/// Limits remainders by the triangle inequality: the change of p plus the linear part.
void cap_by_change(const Row& row, std::span<const double> p, std::span<const double> p_error,
                   std::span<const double> e, std::span<double> remainder) {
  std::vector<double> change(p.size());
  propagate_softmax(p, p_error, e, change);
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Magnitude apart = defect_of(row, p[i], p_error[i], i) + Magnitude(change[i]) + row.p[i] * row.moved[i];
    remainder[i] = std::min(remainder[i], apart.value());
  }
}

}  // namespace

LinearExtremum linear_reduce_max(std::span<const double> x, std::span<const double> e) {
  return extremum(x, e, 1.0);
}

LinearExtremum linear_reduce_min(std::span<const double> x, std::span<const double> e) {
  return extremum(x, e, -1.0);
}

void linear_softmax(std::span<const double> p, std::span<const double> p_error, std::span<const double> e,
                    std::span<double> remainder) {
  const Row row = row_of(p, p_error, e);
  bool is_wide = false;  // whether the bound of cap_by_change() may be smaller for some element
  for (std::size_t i = 0; i < p.size(); ++i) {
    const Magnitude bend = std::max(Magnitude(exp_remainder_up(row.moved[i].value())), row.normalisation);
    remainder[i] = (defect_of(row, p[i], p_error[i], i) + row.p[i] * bend).value();
    is_wide = is_wide || row.moved[i] < bend;
  }
  if (is_wide) cap_by_change(row, p, p_error, e, remainder);
}

}  // namespace driftbound::bounds::inline theorems
