#include "bounds/matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/rules.hpp"
#include "driftbound/num/directed.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::int64_t work_worth_a_thread = 1 << 20;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Row-major [k, n] copy of one batch's B.
std::vector<double> pack_b(const ProductPlan& plan, std::int64_t batch, std::span<const double> b) {
  std::vector<double> packed(at(plan.k * plan.n));
  for (std::int64_t k = 0; k < plan.k; ++k) {
    for (std::int64_t j = 0; j < plan.n; ++j) packed[at(k * plan.n + j)] = b[plan.b_index(batch, k, j)];
  }
  return packed;
}

void accumulate_row(const ProductPlan& plan, std::int64_t batch, std::int64_t i, std::span<const double> a,
                    const std::vector<double>& b, double* row) {
  for (std::int64_t k = 0; k < plan.k; ++k) {
    const double factor = a[plan.a_index(batch, i, k)];
    const double* b_row = b.data() + k * plan.n;
    for (std::int64_t j = 0; j < plan.n; ++j) row[j] += factor * b_row[j];
  }
}

}  // namespace

double outward(double value, std::int64_t roundings, std::int64_t products) {
  if (std::isnan(value)) return std::numeric_limits<double>::infinity();
  const double factor = 1.0 + static_cast<double>(2 * roundings) * 0x1p-53;
  const double underflowed = static_cast<double>(products) * std::numeric_limits<double>::denorm_min();
  return add_up(mul_up(value, factor), underflowed);
}

std::vector<double> product_up(const ProductPlan& plan, std::span<const double> a, std::span<const double> b,
                               const Rules& rules, int threads) {
  std::vector<double> c(at(plan.batches * plan.m * plan.n), 0.0);
  const NonzeroCounts nonzero = count_nonzero(plan, a, b);
  std::vector<double> packed;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    const bool same_b = batch > 0 && plan.b_batch[at(batch)] == plan.b_batch[at(batch - 1)];
    if (!same_b) packed = pack_b(plan, batch, b);
    const bool worth_it = plan.m * plan.n * plan.k >= work_worth_a_thread;
    parallel_for(plan.m, worth_it ? threads : 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t row = batch * plan.m + i;
        double* values = c.data() + row * plan.n;
        accumulate_row(plan, batch, i, a, packed, values);
        for (std::int64_t j = 0; j < plan.n; ++j) {
          const std::int64_t products = std::min(nonzero.rows[at(row)], nonzero.columns[at(batch * plan.n + j)]);
          values[j] = rules.outward(values[j], plan.k, products);
        }
      }
    });
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
