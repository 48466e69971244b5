#include "bounds/positive_definite.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/gamma.hpp"
#include "evaluate/product.hpp"
#include "evaluate/product_kernels.hpp"

namespace driftbound::bounds {
namespace {

constexpr double unit = 0x1p-53, smallest = std::numeric_limits<double>::denorm_min();

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Rows [first, first + rows) of R, from column `first` on, less what the rows above them make: to be factorised.
void take_rows_above(Tensor<double>& r, std::int64_t first, std::int64_t rows) {
  const std::int64_t n = r.shape[0], columns = n - first;
  if (first == 0) return;
  std::vector<double> left(at(rows * first)), made(at(rows * columns));
  for (std::int64_t k = 0; k < first; ++k)
    for (std::int64_t i = 0; i < rows; ++i) left[at(i * first + k)] = r.values[at(k * n + first + i)];
  ProductPlan plan;
  plan.m = rows;
  plan.k = first;
  plan.n = columns;
  plan.a_batch = plan.b_batch = {0};
  plan.a_row = first;
  plan.a_col = 1;
  plan.b_row = n;
  plan.b_col = 1;
  PackedMatrices<double> packed;
  pack_missing<double>(plan, std::span<const double>(r.values).subspan(at(first)), packed);
  PackedProduct<double> product;
  product.a = left.data();
  product.b = packed.at(0).data();
  product.c = made.data();
  product.m = at(rows);
  product.n = at(columns);
  product.k = product.chain = at(first);
  product.fma = true;
  fastest_product_kernels().multiply(product, 0, at(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    double* row = r.values.data() + (first + i) * n + first;
    for (std::int64_t j = i; j < columns; ++j) row[j] -= made[at(i * columns + j)];
  }
}

/// Whether rows [first, last) have positive pivots; they become rows of R.
bool factorise_rows(Tensor<double>& r, std::int64_t first, std::int64_t last) {
  const std::int64_t n = r.shape[0];
  for (std::int64_t k = first; k < last; ++k) {
    double* row = r.values.data() + k * n;
    if (!(row[k] > 0.0) || !std::isfinite(row[k])) return false;
    const double pivot = std::sqrt(row[k]);
    row[k] = pivot;
    for (std::int64_t j = k + 1; j < n; ++j) row[j] /= pivot;
    for (std::int64_t i = k + 1; i < last; ++i) {
      double* below = r.values.data() + i * n;
      const double factor = row[i];
      for (std::int64_t j = i; j < n; ++j) below[j] -= factor * row[j];
    }
  }
  return true;
}

/// The largest eigenvalue of the tridiagonal matrix, by bisection: x is above it if no pivot of x I - T is negative.
double approx_largest_eigenvalue(const std::vector<double>& diagonal, const std::vector<double>& beside) {
  double high = 0.0, low = 0.0;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    low = std::max(low, diagonal[i]);
    high = std::max(high, diagonal[i] + (i > 0 ? beside[i - 1] : 0.0) + (i < beside.size() ? beside[i] : 0.0));
  }
  const auto is_above = [&](double x) {
    double pivot = 1.0;
    for (std::size_t i = 0; i < diagonal.size(); ++i) {
      pivot = x - diagonal[i] - (i > 0 ? beside[i - 1] * beside[i - 1] / pivot : 0.0);
      if (!(pivot > 0.0)) return false;
    }
    return true;
  };
  for (int step = 0; step < 60; ++step) {
    const double middle = low + (high - low) / 2.0;
    (is_above(middle) ? high : low) = middle;
  }
  return high;
}

double dot(const std::vector<double>& x, const double* y) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += x[i + lane] * y[i + lane];
  for (; i < x.size(); ++i) sums[0] += x[i] * y[i];
  double sum = 0.0;
  for (const double lane : sums) sum += lane;
  return sum;
}

/// The largest eigenvalue of G on a growing Krylov space, every vector made orthogonal to all before it.
class Lanczos {
public:
  explicit Lanczos(const Tensor<double>& g) : g_(g), next_(g.values.size() / at(g.shape[0])) {
    std::uint32_t state = 1;
    for (double& x : next_) {
      state = state * 1664525u + 1013904223u;
      x = 0x1p-32 * state + 0.5;
    }
  }

  /// Whether there was a direction left to take.
  bool step() {
    const double length = std::sqrt(dot(next_, next_.data()));
    if (!(length > 0x1p-40 * scale_) || basis_.size() == next_.size()) return false;
    if (!basis_.empty()) beside_.push_back(length);
    for (double& x : next_) x /= length;
    basis_.push_back(next_);
    const std::vector<double>& v = basis_.back();
    for (std::size_t i = 0; i < v.size(); ++i) next_[i] = dot(v, g_.values.data() + i * v.size());
    diagonal_.push_back(dot(next_, v.data()));
    for (int repetition = 0; repetition < 2; ++repetition) {
      for (const std::vector<double>& taken : basis_) {
        const double share = dot(next_, taken.data());
        for (std::size_t i = 0; i < v.size(); ++i) next_[i] -= share * taken[i];
      }
    }
    scale_ = std::max(scale_, std::abs(diagonal_.back()));
    return true;
  }

  double approx_largest() const { return approx_largest_eigenvalue(diagonal_, beside_); }

private:
  const Tensor<double>& g_;
  std::vector<std::vector<double>> basis_;
  std::vector<double> next_, diagonal_, beside_;
  double scale_ = 0.0;
};

/// Where Lanczos' method ends, and by how much more than that the largest eigenvalue may be.
struct Estimate {
  double value = 0.0, margin = 0.0;
};

Estimate estimate_largest_eigenvalue(const Tensor<double>& g) {
  constexpr int most_steps = 48, steps_at_once = 4;
  constexpr double near_enough = 0x1p-12, least_margin = 0x1p-40;
  Lanczos lanczos(g);
  Estimate estimate;
  for (int step = 0; step < most_steps; step += steps_at_once) {
    bool goes_on = true;
    for (int i = 0; goes_on && i < steps_at_once; ++i) goes_on = lanczos.step();
    const double value = lanczos.approx_largest();
    estimate = {value, 4.0 * (value - estimate.value)};
    if (!goes_on) estimate.margin = 0.0;
    if (!goes_on || !(estimate.margin > 4.0 * near_enough * value)) break;
  }
  estimate.margin = std::max(estimate.margin, least_margin * estimate.value);
  return estimate;
}

/// x I - G, its diagonal rounded down.
Tensor<double> below_multiple_of_identity(double x, const Tensor<double>& g) {
  const std::int64_t n = g.shape[0];
  Tensor<double> a({n, n});
  for (std::size_t i = 0; i < a.size(); ++i) a.values[i] = -g.values[i];
  for (std::int64_t i = 0; i < n; ++i) a.values[at(i * n + i)] = sub_down(x, g.values[at(i * n + i)]);
  return a;
}

}  // namespace

bool has_cholesky_factor(Tensor<double> a) {
  constexpr std::int64_t at_once = 32;
  const std::int64_t n = a.shape[0];
  for (std::int64_t first = 0; first < n; first += at_once) {
    const std::int64_t last = std::min(n, first + at_once);
    take_rows_above(a, first, last - first);
    if (!factorise_rows(a, first, last)) return false;
  }
  return true;
}

Magnitude definite_within(std::int64_t n, Magnitude trace) {
  const Magnitude rows(static_cast<double>(n)), rounding = gamma(n + 1, unit);
  const Magnitude epsilon =
      divide_up(Magnitude(2.0) * rounding + Magnitude(4.0 * unit), sub_down(1.0, rounding.value()));
  if (!(epsilon < Magnitude(0.5))) return Magnitude::infinite();
  const Magnitude underflow = rows * (rows + Magnitude(8.0) + Magnitude(2.0) * trace) * Magnitude(smallest);
  return divide_up(epsilon, sub_down(1.0, epsilon.value())) * (trace + underflow) + underflow;
}

Magnitude largest_eigenvalue(const Tensor<double>& g) {
  constexpr int most_trials = 5;
  const Estimate estimate = estimate_largest_eigenvalue(g);
  double margin = estimate.margin;
  for (int trial = 0; trial < most_trials; ++trial, margin *= 8.0) {
    const double x = add_up(estimate.value, margin);
    if (!(x > 0.0) || !std::isfinite(x)) break;
    if (has_cholesky_factor(below_multiple_of_identity(x, g))) {
      const auto n = g.shape[0];
      return Magnitude(x) + definite_within(n, Magnitude(static_cast<double>(n)) * Magnitude(x));
    }
  }
  return Magnitude::infinite();
}

}  // namespace driftbound::bounds
