#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bounds/kernels/element_kernels.hpp"
#include "bounds/kernels/row_kernels.hpp"
#include "bounds/matrices/coarse_product.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/smooth.hpp"
#include "bounds/theorems/defects.hpp"
#include "bounds/theorems/norms.hpp"
#include "bounds/theorems/sums.hpp"
#include "support/bound_checks.hpp"
#include "support/gelu.hpp"
#include "support/theorems.hpp"

/// Loops over rows of bounds against the same in 700 bits, one element after the other.
namespace checks {

using Row = std::vector<double>;

/// Numbers of many sizes: zeros, powers of two, numbers that differ from them by one unit, subnormal ones.
inline double spread_number(Generator& generator, int most_exponent = 20) {
  const int kind = static_cast<int>(generator() % 8);
  const double scale = std::ldexp(1.0, static_cast<int>(generator() % 40) - 40 + most_exponent);
  if (kind == 0) return 0.0;
  if (kind == 1) return scale;
  if (kind == 2) return std::nextafter(scale, generator() % 2 == 0 ? 0.0 : 1e300);
  if (kind == 3) return -scale;
  return uniform(generator, -1.0, 1.0) * scale;
}

inline Row spread_row(std::size_t n, Generator& generator, bool nonnegative) {
  Row row(n);
  for (double& x : row) x = nonnegative ? std::abs(spread_number(generator)) : spread_number(generator);
  if (n > 2 && generator() % 4 == 0) row[n / 2] = 0x1p-1074;
  return row;
}

/// How often `bound` lies below what it bounds, and the largest excess.
struct RowTally {
  std::int64_t violations = 0;
  double excess = 0.0;                   ///< bound / what it bounds
  std::int64_t compared = 0, close = 0;  ///< within a hundredth

  void add(double bound, const Real& least) {
    if (!(least <= Real(bound))) ++violations;
    const bool is_comparable = std::isfinite(bound) && Real(0x1p-500) <= least;
    if (!is_comparable) return;
    const double here = (Real(bound) / least).to_double();
    excess = std::max(excess, here);
    ++compared;
    close += here <= 1.01 ? 1 : 0;
  }
};

/// T-68 and T-22 as they are written down.
struct ExactSum {
  int products = 0;
  bool has_addend = false;
  Real of_products, addend, result;  ///< result: |y| and how far it moves
  Real norm;                         ///< one-sided, with the addend
  bool has_small = false;            ///< set apart: all but `others` of the products, adding up to `small`
  int others = 0;
  Real small;

  Real roundings(const bounds::RowFormat& format) const {
    const int leaves = products + (has_addend ? 1 : 0);
    const Real u(format.u), h = Real(products) * Real(format.underflow), total = of_products + addend;
    const Real exact = result < total ? result : total;
    const Real growth = Real(1.0) + Real(2.0 * leaves) * u, most = growth * Real(0.5) * (total + exact);
    const Real offset = exact + (growth - Real(1.0)) * Real(0.5) * (total + exact);
    const auto by_sizes_of = [&](int n, const Real& set_apart, int at_full_size) {
      Real sizes = of_products + Real(at_full_size) * first_place_down(most + h);
      const auto reach = [&](int k) {
        return growth * (Real(static_cast<double>(k)).apply(mpfr_sqrt) * norm + set_apart);
      };
      for (int k = 2; k <= n - 2; ++k) sizes += first_place_down(std::min({most, reach(k), offset + reach(n - k)}) + h);
      return u * sizes + h;
    };
    Real by_sizes = by_sizes_of(leaves, Real(), leaves > 2 ? 1 : 0);
    if (has_small) {
      const int n = others + (has_addend ? 1 : 0);
      const Real other = by_sizes_of(n, small, std::clamp(n - 1, 0, 2)) + growth * small + h;
      by_sizes = other < by_sizes ? other : by_sizes;
    }
    const Real classical = Real(leaves > 1 ? leaves - 1 : 0) * u * total + h;
    const Real before = by_sizes < classical ? by_sizes : classical;
    const Real last = u * first_place_down(exact + before);
    return before + (products == 0 ? Real() : last < Real(format.eta) ? Real(format.eta) : last);
  }

private:
  /// ufp, or half of it for what lies within a unit of a power of two.
  static Real first_place_down(const Real& x) {
    if (x <= Real()) return Real();
    return Real(std::ldexp(1.0, std::ilogb(x.to_double() * (1.0 - 0x1p-50))));
  }
};

inline bounds::RowFormat float_rows() {
  return {0x1p-24, 0x1p-150, 1.001 * 0x1p-150, format(FormatId::fp32).largest};
}

/// A product of rows with a matrix, and what the row rules make of it.
inline void check_product_rows(const bounds::RowKernels& rows, Generator& generator, RowTally& moved_tally,
                               RowTally& run_tally) {
  const std::size_t k = 1 + generator() % 40, n = 1 + generator() % 20;
  Row w(k * n), x(k), e(k), own(n), addend(n), y(n);
  for (double& v : w) v = spread_number(generator, 0);
  for (double& v : x) v = spread_number(generator, 0);
  for (double& v : e) v = std::abs(spread_number(generator, -10));
  for (double& v : own) v = std::abs(spread_number(generator, -30));
  for (double& v : addend) v = std::abs(spread_number(generator, 0));
  const auto weights = bounds::coarse_weights(w, k, n).value();
  Row larger(k);
  rows.larger_operand(x.data(), e.data(), larger.data(), k);
  const double e_scale = bounds::coarse_scale(rows.largest(e.data(), k)).value();
  const bool moves_by_norm = generator() % 2 == 0;
  const double radius = uniform(generator, 0.2, 1.2) * bounds::norm_of_vector(e).value();
  const double reach = uniform(generator, 1.0, 1.5) * radius;
  const Row& sizes = moves_by_norm ? x : larger;
  const double scale = bounds::coarse_scale(rows.largest(sizes.data(), k)).value();
  std::vector<float> e_row(k), row(k), squares(k), signed_squares(k), e_sums(n), sums(n), square_sums(n),
      signed_square_sums(n);
  rows.coarse(e.data(), e_scale, e_row.data(), k);
  rows.coarse(sizes.data(), scale, row.data(), k);
  rows.coarse_squares(sizes.data(), scale, squares.data(), k);
  bounds::multiply_coarse(e_row, 1, weights, weights.magnitudes, e_sums);
  bounds::multiply_coarse(row, 1, weights, weights.magnitudes, sums);
  bounds::multiply_coarse(squares, 1, weights, weights.squares, square_sums);
  rows.coarse_signed_squares(x.data(), scale, signed_squares.data(), k);
  bounds::multiply_coarse(signed_squares, 1, weights, weights.signed_squares, signed_square_sums);
  for (std::size_t j = 0; j < n; ++j)
    y[j] = uniform(generator, -1.0, 1.0) * sums[j] / scale * weights.magnitudes.column_scales[j];

  bounds::SumRow sum;
  sum.y = y.data();
  sum.own = own.data();
  sum.addend = addend.data();
  sum.columns = weights.nonzero.data();
  sum.nonzero = rows.count_nonzero(larger.data(), k);
  sum.is_moved = true;
  sum.moved = {e_sums.data(), 1.0 / e_scale, weights.magnitudes.column_scales.data()};
  sum.norms = weights.norms.data();
  sum.largest = weights.largest.data();
  sum.radius = radius;
  sum.reach = reach;
  sum.moves_by_norm = moves_by_norm;
  sum.total = {sums.data(), 1.0 / scale, weights.magnitudes.column_scales.data()};
  sum.squares = {square_sums.data(), 1.0 / (scale * scale), weights.squares.column_scales.data()};
  sum.knows_signed_squares = generator() % 4 != 0;
  sum.signed_squares = {signed_square_sums.data(), 1.0 / (scale * scale), weights.signed_squares.column_scales.data()};
  sum.signed_squares_error = bounds::coarse_error(k);
  Row small(k);
  rows.up_to(larger.data(), bounds::small_share(0x1p-24) * rows.largest(larger.data(), k), small.data(), k);
  const double set_apart = rows.count_nonzero(small.data(), k);
  sum.sets_apart = set_apart > 0.0;
  sum.not_small = sum.nonzero - set_apart;
  sum.small_norm = bounds::norm_of_vector(small).value();
  Row moved(n), run_moved(n), run_added(n);
  rows.move(sum, moved.data(), n);
  const bounds::RowFormat format = float_rows();
  rows.any_order(sum, format, {run_moved.data(), run_added.data()}, n);
  for (std::size_t j = 0; j < n; ++j) {
    ExactSum exact;
    Real by_operands, all_squares, difference;
    Real column_squares, small_squares, largest_factor;
    int of_column = 0, of_row = 0;
    for (std::size_t i = 0; i < k; ++i) {
      const Real factor = abs(Real(w[i * n + j])), size = abs(Real(x[i])) + Real(e[i]);
      by_operands += factor * Real(e[i]);
      const Real counted = moves_by_norm ? abs(Real(x[i])) : size;
      exact.of_products += factor * counted;
      const Real term = Real(w[i * n + j]) * Real(x[i]);
      all_squares += factor * factor * counted * counted;
      difference += term * abs(term);
      largest_factor = largest_factor < factor ? factor : largest_factor;
      of_column += w[i * n + j] != 0.0 ? 1 : 0;
      of_row += larger[i] != 0.0 ? 1 : 0;
      column_squares += factor * factor;
      small_squares += small[i] == 0.0 ? Real() : size * size;
    }
    exact.products = std::min(of_column, of_row);
    const Real column_norm = column_squares.apply(mpfr_sqrt), by_norm = Real(radius) * column_norm,
               addend_square = Real(addend[j]) * Real(addend[j]);
    by_operands = by_norm < by_operands ? by_norm : by_operands;
    const Real of_one_side = sum.knows_signed_squares ? Real(0.5) * (all_squares + abs(difference)) : all_squares;
    const Real moved_norm = (of_one_side + addend_square).apply(mpfr_sqrt) + Real(reach) * largest_factor;
    if (moves_by_norm) exact.of_products += Real(reach) * column_norm;
    exact.norm = (all_squares + addend_square).apply(mpfr_sqrt);
    if (moves_by_norm || (sum.knows_signed_squares && moved_norm < exact.norm)) exact.norm = moved_norm;
    exact.has_small = set_apart > 0.0;
    exact.others = std::min(exact.products, of_row - static_cast<int>(set_apart));
    exact.small = (column_squares * small_squares).apply(mpfr_sqrt);
    exact.has_addend = addend[j] != 0.0;
    exact.addend = Real(addend[j]);
    exact.result = abs(Real(y[j])) + by_operands + Real(own[j]);
    const Real roundings = exact.roundings(format);
    moved_tally.add(moved[j], by_operands + Real(own[j]));
    run_tally.add(run_added[j], Real(own[j]) + roundings);
    run_tally.add(run_moved[j], by_operands + Real(own[j]) + roundings);
  }
}

struct RowCase {
  std::string name;
  std::function<void(const bounds::RowKernels&, Generator&, RowTally&)> check;
};

inline Real dot(const Row& d, const Row& x) {
  Real sum;
  for (std::size_t i = 0; i < d.size(); ++i) sum += abs(Real(d[i])) * Real(x[i]);
  return sum;
}

inline std::size_t row_size(Generator& generator) {
  return 1 + generator() % 37;
}

/// A smooth function of T-88, with arguments that are off, against the function itself.
inline void check_smooth_row(const bounds::RowKernels& rows, const bounds::Smooth& f,
                             const std::function<Real(const Real&)>& value, Generator& g, RowTally& tally) {
  const std::size_t n = row_size(g);
  Row x(n), e(n), y(n), slopes(n), curvatures(n), moved(n), added(n), remainder(n);
  const bool is_tail = g() % 3 == 0;
  for (double& v : x) v = is_tail ? uniform(g, -30.0, 30.0) : uniform(g, -6.0, 6.0);
  const int largest = is_tail ? 5 : 1;
  for (double& v : e) v = g() % 5 == 0 ? 0.0 : std::ldexp(uniform(g, 0.5, 1.0), largest - static_cast<int>(g() % 50));
  if (!bounds::evaluate(f, bounds::fastest_element_kernels(), x.data(), y.data(), slopes.data(), curvatures.data(), n))
    ++tally.violations;
  bounds::SmoothRow row = f.numbers;
  row.units = 1.5;
  row.absolute_units = 0.25;
  row.y = y.data();
  row.e = e.data();
  row.slopes = slopes.data();
  row.curvatures = curvatures.data();
  const bounds::RowFormat format = float_rows();
  const bool takes_steps = f.bends != nullptr;
  row.steps = takes_steps ? 3.5 * format.u : 0.0;
  row.least_step = takes_steps ? 0x1p-30 * format.u : 0.0;
  if (takes_steps) row.x = x.data();
  rows.smooth(row, format, {moved.data(), added.data()}, remainder.data(), n);
  for (std::size_t i = 0; i < n; ++i) {
    const Real centre = value(Real(x[i]));
    for (const double sign : {-1.0, -0.5, -0.0625, 0.5, 1.0}) {
      const Real step = Real(sign) * Real(e[i]), there = value(Real(x[i]) + step);
      const Real steps = Real(row.steps) * abs(Real(x[i]) + step) + Real(row.least_step);
      const Real rounding = Real(format.u) * (Real(row.units) * abs(there) + Real(row.absolute_units)) + steps;
      const Real left = abs(there - centre - Real(slopes[i]) * step);
      tally.add(remainder[i], left);
      tally.add((std::abs(sign) * e[i] * 0x1p-49 + sign * sign * remainder[i]) * (1.0 + 0x1p-50), left);  // T-96
      tally.add(moved[i], abs(there - Real(y[i])) + rounding);
      tally.add(added[i], abs(centre - Real(y[i])) + rounding);
    }
  }
  tally.excess = 1.0;
}

using SingleRow = std::vector<float>;

inline SingleRow single_row(std::size_t n, Generator& generator) {
  SingleRow row(n);
  for (float& x : row) x = static_cast<float>(spread_number(generator));
  if (n > 2 && generator() % 4 == 0) row[n / 2] = 0x1p-149F;
  return row;
}
inline Row as_row(const SingleRow& x) {
  return {x.begin(), x.end()};
}

/// Slopes that are left, and what is charged for the others (T-72).
inline void check_single_charges(const bounds::RowKernels& rows, Generator& g, RowTally& tally) {
  const std::size_t n = row_size(g);
  Row slopes = spread_row(n, g, false), e = spread_row(n, g, true), added = spread_row(n, g, true);
  Row remainder = spread_row(n, g, true);
  slopes[g() % n] = 0x1p-130;
  const double limit = g() % 4 == 0 ? -1.0 : std::abs(spread_number(g));
  SingleRow left(n), charged(n);
  rows.leave_flat(slopes.data(), e.data(), limit, left.data(), n);
  const bounds::RowCharges row{added.data(), remainder.data(), slopes.data(), e.data(), left.data()};
  rows.single_charges(row, charged.data(), n);
  for (std::size_t i = 0; i < n; ++i) {
    const Real propagated = abs(Real(slopes[i])) * Real(e[i]), rest = Real(added[i]) + Real(remainder[i]);
    const bool is_left = left[i] != 0.0F;
    if (is_left && (left[i] != static_cast<float>(slopes[i]) || propagated * Real(1.0 + 0x1p-50) < Real(limit)))
      ++tally.violations;
    tally.add(static_cast<double>(charged[i]), is_left ? rest : rest + propagated);
  }
  const std::size_t at = g() % n;
  (g() % 2 == 0 ? added : remainder)[at] = g() % 2 == 0 ? std::nan("") : INFINITY;
  rows.single_charges({added.data(), remainder.data()}, charged.data(), n);
  if (std::isfinite(charged[at])) ++tally.violations;
}

inline std::vector<RowCase> row_cases() {
  using Rows = const bounds::RowKernels&;
  return {
      {"largest",
       [](Rows rows, Generator& g, RowTally& tally) {
         Row x = spread_row(row_size(g), g, false);
         Real largest;
         for (const double v : x) largest = largest < abs(Real(v)) ? abs(Real(v)) : largest;
         tally.add(rows.largest(x.data(), x.size()), largest);
         x[g() % x.size()] = g() % 2 == 0 ? std::nan("") : -INFINITY;
         if (std::isfinite(rows.largest(x.data(), x.size()))) ++tally.violations;
       }},
      {"weighted sum",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row d = spread_row(n, g, false), x = spread_row(n, g, true);
         const auto terms = static_cast<std::int64_t>(n);
         tally.add(bounds::outward(rows.weighted_sum(d.data(), x.data(), n), terms + 1, terms), dot(d, x));
       }},
      {"nonzero",
       [](Rows rows, Generator& g, RowTally& tally) {
         const Row x = spread_row(row_size(g), g, false);
         int count = 0;
         for (const double v : x) count += v != 0.0 ? 1 : 0;
         tally.add(rows.count_nonzero(x.data(), x.size()), Real(count));
       }},
      {"larger operand",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row x = spread_row(n, g, false), e = spread_row(n, g, true);
         Row result(n);
         rows.larger_operand(x.data(), e.data(), result.data(), n);
         for (std::size_t i = 0; i < n; ++i) tally.add(result[i], abs(Real(x[i])) + Real(e[i]));
       }},
      {"up to",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row x = spread_row(n, g, true);
         const double limit = x[g() % n];
         Row result(n);
         rows.up_to(x.data(), limit, result.data(), n);
         for (std::size_t i = 0; i < n; ++i) tally.add(result[i], Real(x[i] <= limit ? x[i] : 0.0));
       }},
      {"single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row x = spread_row(n, g, false);
         std::vector<float> once(n);
         rows.coarse(x.data(), 0x1p-21, once.data(), n);
         for (std::size_t i = 0; i < n; ++i) tally.add(static_cast<double>(once[i]), abs(Real(x[i])) * Real(0x1p-21));
       }},
      {"squares in single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row x = spread_row(n, g, false);
         std::vector<float> squares(n);
         rows.coarse_squares(x.data(), 0x1p-21, squares.data(), n);
         for (std::size_t i = 0; i < n; ++i)
           tally.add(static_cast<double>(squares[i]), Real(x[i]) * Real(x[i]) * Real(0x1p-42));
       }},
      {"signed squares in single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row x = spread_row(n, g, false);
         std::vector<float> signed_squares(n);
         rows.coarse_signed_squares(x.data(), 0x1p-21, signed_squares.data(), n);
         for (std::size_t i = 0; i < n; ++i) {
           const Real exact = Real(x[i]) * abs(Real(x[i])) * Real(0x1p-42);
           const Real error = abs(Real(static_cast<double>(signed_squares[i])) - exact);
           tally.add(0x1p-23, error <= Real(0x1p-149) ? Real() : error / abs(exact));
         }
         tally.excess = 1.0;
       }},
      {"move",
       [](Rows rows, Generator& g, RowTally& tally) {
         RowTally ignored;
         check_product_rows(rows, g, tally, ignored);
       }},
      {"any order",
       [](Rows rows, Generator& g, RowTally& tally) {
         RowTally ignored;
         check_product_rows(rows, g, ignored, tally);
       }},
      {"limit",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row centre = spread_row(n, g, false), e = spread_row(n, g, true);
         const double norm = std::abs(spread_number(g)), largest = 65504.0;
         Row limited = e;
         rows.limit(centre.data(), norm, 0.5 * largest, limited.data(), n);
         for (std::size_t i = 0; i < n; ++i) {
           const double smaller = std::min(e[i], norm);
           tally.add(limited[i], Real(smaller));
           const bool may_overflow = Real(largest) <= abs(Real(centre[i])) + Real(smaller);
           if (may_overflow && std::isfinite(limited[i])) ++tally.violations;
         }
       }},
      {"relu",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         Row x(n), e(n);  // numbers whose sums have at most 700 bits
         for (double& v : x) v = spread_number(g);
         for (double& v : e) v = std::abs(spread_number(g));
         Row slopes(n), remainder(n), moved(n);
         rows.relu(x.data(), e.data(), slopes.data(), remainder.data(), moved.data(), n);
         const auto relu = [](const Real& t) { return t < Real() ? Real() : t; };
         for (std::size_t i = 0; i < n; ++i) {
           for (const double sign : {-1.0, -0.5, 0.5, 1.0}) {
             const Real step = Real(sign) * Real(e[i]);
             const Real change = relu(Real(x[i]) + step) - relu(Real(x[i]));
             tally.add(moved[i], abs(change));
             tally.add(remainder[i], abs(change - Real(slopes[i]) * step));
           }
         }
         tally.excess = 1.0;
       }},
      {"relu chords",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         Row x(n), e(n), slopes(n), remainder(n), moved(n);
         for (double& v : x) v = spread_number(g);
         for (std::size_t i = 0; i < n; ++i) e[i] = std::abs(i % 2 == 0 ? spread_number(g) : x[i] * (1.0 + 1e-3));
         rows.relu(x.data(), e.data(), slopes.data(), remainder.data(), moved.data(), n);
         const Row before = remainder;
         rows.relu_chords(x.data(), e.data(), slopes.data(), remainder.data(), n);
         const auto relu = [](const Real& t) { return t < Real() ? Real() : t; };
         for (std::size_t i = 0; i < n; ++i) {
           if (!(slopes[i] >= 0.0 && slopes[i] <= 1.0)) ++tally.violations;
           if (before[i] > 0.0) tally.add(0.5 * before[i] * (1.0 + 0x1p-48) + 0x1p-48 * e[i], Real(remainder[i]));
           for (const Real& step : {Real(-e[i]), Real(-x[i]), Real(e[i])}) {
             if (!(abs(step) <= Real(e[i]))) continue;
             const Real change = relu(Real(x[i]) + step) - relu(Real(x[i]));
             tally.add(remainder[i], abs(change - Real(slopes[i]) * step));
           }
         }
         tally.excess = 1.0;
       }},
      {"sum",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row y = spread_row(n, g, false), own = spread_row(n, g, true), e = spread_row(n, g, true);
         const bounds::RowFormat format = float_rows();
         Row moved = e, added(n), exact = e;
         rows.sum(y.data(), own.data(), &format, {moved.data(), added.data()}, n);
         rows.sum(y.data(), own.data(), nullptr, {exact.data(), nullptr}, n);
         for (std::size_t i = 0; i < n; ++i) {
           const Real before = Real(e[i]) + Real(own[i]), size = abs(Real(y[i])) + before;
           const Real place(
               size <= Real(0x1p-130) ? 0.0 : std::ldexp(0x1p-24, std::ilogb(size.to_double() * (1.0 - 0x1p-50))));
           tally.add(exact[i], before);
           tally.add(added[i], Real(own[i]) + place);
           tally.add(moved[i], before + place);
         }
       }},
      {"add",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row a = spread_row(n, g, true), b = spread_row(n, g, true);
         Row sum = a;
         rows.add(sum.data(), b.data(), n);
         for (std::size_t i = 0; i < n; ++i) tally.add(sum[i], Real(a[i]) + Real(b[i]));
       }},
      {"add constants",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row y = spread_row(n, g, false), c = spread_row(n, g, false), error = Row(n, 0x1p-70);
         Row sum = y, total = error;
         rows.add_constants(sum.data(), total.data(), c.data(), n);
         for (std::size_t i = 0; i < n; ++i)
           tally.add(total[i], Real(error[i]) + abs(Real(sum[i]) - Real(y[i]) - Real(c[i])));
         tally.excess = 1.0;
       }},
      {"outer",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row columns = spread_row(n, g, true);
         const double scale = std::abs(spread_number(g)), underflow = 0x1p-1000;
         Row result(n);
         rows.outer(scale, underflow, columns.data(), result.data(), n);
         for (std::size_t i = 0; i < n; ++i) {
           const Real least = Real(scale) * Real(columns[i]) + Real(columns[i] == 0.0 ? 0.0 : underflow);
           tally.add(result[i], least * Real(1.0 - 0x1p-51));  // D of T-64 has room for two roundings
         }
       }},
      {"scale",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row e = spread_row(n, g, true), c = spread_row(n, g, false);
         Row result(n);
         rows.scale(e.data(), c.data(), result.data(), n);
         for (std::size_t i = 0; i < n; ++i) tally.add(result[i], Real(e[i]) * abs(Real(c[i])));
       }},
      {"smooth",
       [](Rows rows, Generator& g, RowTally& tally) {
         const auto softplus = [](const Real& x) { return x.apply(mpfr_exp).apply(mpfr_log1p); };
         check_smooth_row(
             rows, bounds::smooth_tanh, [](const Real& x) { return x.apply(mpfr_tanh); }, g, tally);
         check_smooth_row(rows, bounds::smooth_softplus, softplus, g, tally);
         check_smooth_row(
             rows, bounds::smooth_sin, [](const Real& x) { return x.apply(mpfr_sin); }, g, tally);
         check_smooth_row(
             rows, bounds::smooth_gelu, [](const Real& x) { return gelu(x, false); }, g, tally);
         check_smooth_row(
             rows, bounds::smooth_gelu_tanh, [](const Real& x) { return gelu(x, true); }, g, tally);
       }},
      {"add shares",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const Row d = spread_row(n, g, false), share = spread_row(n, g, false);
         const Row defect(n, 0.0), own = Row(n, 0x1p-70);
         Row sum = d, total = defect;
         rows.add_shares(sum.data(), total.data(), share.data(), own.data(), n);
         for (std::size_t i = 0; i < n; ++i)
           tally.add(total[i], Real(own[i]) + abs(Real(sum[i]) - Real(d[i]) - Real(share[i])));
         tally.excess = 1.0;
       }},
      {"weighted sum in single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const SingleRow d = single_row(n, g), x = single_row(n, g);
         SingleRow sizes = x;
         for (float& size : sizes) size = std::abs(size);
         const double sum = rows.single_weighted_sum(d.data(), sizes.data(), n);
         const double underflow = 0x1p-149 * static_cast<double>(n);
         tally.add((sum * (1.0 + bounds::coarse_error(n)) + underflow) * (1.0 + 0x1p-50), dot(as_row(d), as_row(x)));
       }},
      {"squares of single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const SingleRow d = single_row(n, g);
         const double squares = rows.single_squares(d.data(), n);
         tally.add(bounds::outward(squares, static_cast<std::int64_t>(n), 0), dot(as_row(d), as_row(d)));
       }},
      {"products in single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         SingleRow d = single_row(n, g), left(n), result(n);
         Row slopes = spread_row(n, g, false);
         for (double& slope : slopes) slope = std::abs(slope) < 0x1p-126 ? 0.0 : slope;
         rows.leave_flat(slopes.data(), Row(n, 1.0).data(), -1.0, left.data(), n);
         const double error = bounds::single_rounding(rows.single_product(d.data(), left.data(), result.data(), n));
         for (std::size_t i = 0; i < n; ++i) tally.add(error, abs(Real(result[i]) - Real(d[i]) * Real(slopes[i])));
         d[g() % n] = g() % 2 == 0 ? std::nanf("") : -HUGE_VALF;
         if (std::isfinite(rows.single_product(d.data(), SingleRow(n, 1.0F).data(), result.data(), n)))
           ++tally.violations;
         tally.excess = 1.0;
       }},
      {"sums in single precision",
       [](Rows rows, Generator& g, RowTally& tally) {
         const std::size_t n = row_size(g);
         const SingleRow a = single_row(n, g), b = single_row(n, g);
         SingleRow sum = a;
         const double error = bounds::single_rounding(rows.single_sum(b.data(), sum.data(), n));
         for (std::size_t i = 0; i < n; ++i) tally.add(error, abs(Real(sum[i]) - Real(a[i]) - Real(b[i])));
         tally.excess = 1.0;
       }},
      {"charges in single precision", check_single_charges},
  };
}

inline RowTally check_row_case(const bounds::RowKernels& rows, const RowCase& subject, int repetitions,
                               std::uint64_t seed) {
  Generator generator(seed);
  RowTally tally;
  for (int i = 0; i < repetitions; ++i) subject.check(rows, generator, tally);
  return tally;
}

/// Sums in single precision that lose all but their first term (T-81).
inline RowTally check_coarse_sums() {
  constexpr std::size_t k = 4097;
  RowTally tally;
  const Row ones(k, 1.0);
  const auto weights = bounds::coarse_weights(ones, k, 1).value();
  std::vector<float> row(k), sum(1);
  const auto multiply = [&](const bounds::CoarseMatrix& matrix) {
    bounds::multiply_coarse(row, 1, weights, matrix, sum);
    return static_cast<double>(sum[0]) * matrix.column_scales[0];
  };
  Row x(k, 0x1p-25), roots(k, 0x1.6p-13);
  x[0] = roots[0] = 1.0;
  Real total, squares;
  for (std::size_t i = 0; i < k; ++i) {
    total += Real(x[i]);
    squares += Real(roots[i]) * Real(roots[i]);
  }
  bounds::row_kernels().coarse(x.data(), 1.0, row.data(), k);
  tally.add(multiply(weights.magnitudes), total);
  bounds::row_kernels().coarse_squares(roots.data(), 1.0, row.data(), k);
  tally.add(multiply(weights.squares), squares);
  bounds::row_kernels().coarse_signed_squares(roots.data(), 1.0, row.data(), k);
  const Real error = abs(Real(multiply(weights.signed_squares)) - squares);
  if (!(error <= Real(bounds::coarse_error(k)) * squares)) ++tally.violations;
  return tally;
}

inline std::int64_t violations_of_row(const bounds::RowKernels& rows, const std::string& name) {
  std::int64_t violations = 0;
  for (const RowCase& subject : row_cases()) {
    if (subject.name == name) violations += check_row_case(rows, subject, 100, 23).violations;
  }
  return violations;
}

}  // namespace checks
