#include "bounds/matrices/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/theorems/outward.hpp"
#include "driftbound/num/directed.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {
namespace {

/// The smallest nonzero element of values >= 0; infinite if there is none.
double smallest_nonzero(std::span<const double> values) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const double x : values) smallest = x != 0.0 && x < smallest ? x : smallest;
  return smallest;
}

/// Whether a product of a nonzero element of a and one of b may be subnormal.
bool may_underflow(std::span<const double> a, std::span<const double> b) {
  return !(smallest_nonzero(a) * smallest_nonzero(b) >= 0x1p-1021);
}

}  // namespace

std::vector<double> product_up(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                               int threads) {
  PackedMatrices<double> packed;
  pack_missing<double>(plan, b, packed);
  std::vector<double> c = multiply<double>(plan, a, packed, fused_chain, threads);
  if (!may_underflow(a, b)) {
    for (double& value : c) value = theorems::outward(value, plan.k, 0);
    return c;
  }
  const NonzeroCounts nonzero = count_nonzero(plan, a, b);
  for (std::size_t i = 0; i < c.size(); ++i) {
    const std::size_t row = i / at(plan.n);
    const std::size_t column = row / at(plan.m) * at(plan.n) + i % at(plan.n);
    c[i] = theorems::outward(c[i], plan.k, std::min(nonzero.rows[row], nonzero.columns[column]));
  }
  return c;
}

NonzeroCounts count_nonzero(const ProductPlan& plan, std::span<const double> a, std::span<const double> b) {
  NonzeroCounts counts{std::vector<std::int64_t>(at(plan.batches * plan.m)),
                       std::vector<std::int64_t>(at(plan.batches * plan.n))};
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t i = 0; i < plan.m; ++i) {
        counts.rows[at(batch * plan.m + i)] += a[plan.a_index(batch, i, k)] != 0.0 ? 1 : 0;
      }
      for (std::int64_t j = 0; j < plan.n; ++j) {
        counts.columns[at(batch * plan.n + j)] += b[plan.b_index(batch, k, j)] != 0.0 ? 1 : 0;
      }
    }
  }
  return counts;
}

LineRanges line_ranges(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                       double smallest_normal) {
  const LineRange none{smallest_normal, false};
  LineRanges ranges{std::vector<LineRange>(at(plan.batches * plan.m), none),
                    std::vector<LineRange>(at(plan.batches * plan.n), none)};
  const auto include = [&](LineRange& range, double x) {
    range.largest = std::max(range.largest, std::abs(x));
    range.has_small = range.has_small || std::abs(x) < smallest_normal;
  };
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t k = 0; k < plan.k; ++k) {
      for (std::int64_t i = 0; i < plan.m; ++i)
        include(ranges.rows[at(batch * plan.m + i)], a[plan.a_index(batch, i, k)]);
      for (std::int64_t j = 0; j < plan.n; ++j)
        include(ranges.columns[at(batch * plan.n + j)], b[plan.b_index(batch, k, j)]);
    }
  }
  return ranges;
}

std::vector<double> magnitudes(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  for (double& value : result) value = std::abs(value);
  return result;
}

}  // namespace driftbound::bounds
