#include "bounds/matrices/positive_definite.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/gamma.hpp"
#include "linalg/ordered_product.hpp"

namespace driftbound::bounds {
namespace {

constexpr double unit = 0x1p-53, smallest = std::numeric_limits<double>::denorm_min();

/// Subtracts sum_{k < first} R_ki R_kj from A_ij for i in [first, first + rows) and j >= i. R and A share the storage
/// r.
void take_rows_above(Tensor<double>& r, std::int64_t first, std::int64_t rows) {
  const std::int64_t n = r.shape[0], columns = n - first;
  if (first == 0) return;
  std::vector<double> left(at(rows * first));
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
  const std::vector<double> made = multiply<double>(plan, left, packed, fused_chain, 1);
  for (std::int64_t i = 0; i < rows; ++i) {
    double* row = r.values.data() + (first + i) * n + first;
    for (std::int64_t j = i; j < columns; ++j) row[j] -= made[at(i * columns + j)];
  }
}

/// Factorises rows [first, last), which become rows of R. Returns false if a pivot is not positive and finite.
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

/// Whether x is above all eigenvalues of the tridiagonal matrix T: all pivots of x I - T are positive.
bool approx_is_above(double x, const std::vector<double>& diagonal, const std::vector<double>& beside) {
  double pivot = 1.0;
  for (std::size_t i = 0; i < diagonal.size(); ++i) {
    pivot = x - diagonal[i] - (i > 0 ? beside[i - 1] * beside[i - 1] / pivot : 0.0);
    if (!(pivot > 0.0)) return false;
  }
  return true;
}

/// The largest eigenvalue of T, assumed to be at least `low`, by bisection.
double approx_largest_eigenvalue(const std::vector<double>& diagonal, const std::vector<double>& beside, double low) {
  constexpr double near_enough = 0x1p-44;
  double high = low;
  for (std::size_t i = 0; i < diagonal.size(); ++i)
    high = std::max(high, diagonal[i] + (i > 0 ? beside[i - 1] : 0.0) + (i < beside.size() ? beside[i] : 0.0));
  while (high - low > near_enough * high) {
    const double middle = low + (high - low) / 2.0;
    if (!(low < middle && middle < high)) break;
    (approx_is_above(middle, diagonal, beside) ? high : low) = middle;
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

/// The estimate of the largest eigenvalue by Lanczos' method, and an estimate of how far it may be too small.
struct Estimate {
  double value = 0.0, margin = 0.0;
};

/// Lanczos' method for the largest eigenvalue of G, with full reorthogonalisation. If the Krylov space is invariant, a
/// new random direction is drawn.
class Lanczos {
public:
  explicit Lanczos(const Tensor<double>& g) : g_(g), next_(g.values.size() / at(g.shape[0])) { draw(); }

  /// Performs at least `steps` further steps, and continues until the last four (16 if n <= 16) raise the estimate by
  /// at most 2^-12 of it.
  Estimate go_on(std::size_t steps) {
    constexpr double near_enough = 0x1p-12, least_margin = 0x1p-40;
    const std::size_t at_once = next_.size() <= 16 ? 16 : 4, first = basis_.size();
    double growth = 0.0;
    do {
      const double before = value_;
      const std::size_t last = std::min(basis_.size() + at_once, next_.size());
      while (basis_.size() < last) step();
      value_ = approx_largest_eigenvalue(diagonal_, beside_, value_);
      growth = basis_.size() == next_.size() ? 0.0 : value_ - before;
    } while (growth > near_enough * value_ || (basis_.size() < first + steps && basis_.size() < next_.size()));
    return {value_, std::max(4.0 * growth, least_margin * value_)};
  }

private:
  void draw() {
    for (double& x : next_) {
      state_ = state_ * 1664525u + 1013904223u;
      x = 0x1p-32 * state_ - 0.5;
    }
  }

  void make_orthogonal() {
    for (int repetition = 0; repetition < 2; ++repetition) {
      for (const std::vector<double>& taken : basis_) {
        const double share = dot(next_, taken.data());
        for (std::size_t i = 0; i < next_.size(); ++i) next_[i] -= share * taken[i];
      }
    }
  }

  void step() {
    double length = std::sqrt(dot(next_, next_.data()));
    const bool is_new = length > 0x1p-40 * scale_;
    if (!basis_.empty()) beside_.push_back(is_new ? length : 0.0);
    if (!is_new) {
      draw();
      make_orthogonal();
      length = std::sqrt(dot(next_, next_.data()));
    }
    for (double& x : next_) x /= length;
    basis_.push_back(next_);
    const std::vector<double>& v = basis_.back();
    for (std::size_t i = 0; i < v.size(); ++i) next_[i] = dot(v, g_.values.data() + i * v.size());
    diagonal_.push_back(dot(next_, v.data()));
    scale_ = std::max(scale_, std::abs(diagonal_.back()));
    make_orthogonal();
  }

  const Tensor<double>& g_;
  std::vector<std::vector<double>> basis_;
  std::vector<double> next_, diagonal_, beside_;
  double value_ = 0.0, scale_ = 0.0;
  std::uint32_t state_ = 1;
};

/// x I - G, with its diagonal rounded down.
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
  constexpr std::size_t most_trials = 5, steps_between = 8;
  const std::int64_t n = g.shape[0];
  Lanczos lanczos(g);
  for (std::size_t trial = 0; trial < most_trials; ++trial) {
    const Estimate estimate = lanczos.go_on(trial * steps_between);
    const double x = add_up(estimate.value, std::ldexp(estimate.margin, static_cast<int>(2 * trial)));
    if (!(x > 0.0) || !std::isfinite(x)) break;
    if (has_cholesky_factor(below_multiple_of_identity(x, g)))
      return Magnitude(x) + definite_within(n, Magnitude(static_cast<double>(n)) * Magnitude(x));
  }
  return Magnitude::infinite();
}

}  // namespace driftbound::bounds
