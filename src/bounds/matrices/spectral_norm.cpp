#include "bounds/matrices/spectral_norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/matrices/positive_definite.hpp"
#include "bounds/theorems/outward.hpp"
#include "linalg/symmetric_product.hpp"

namespace driftbound::bounds::inline theorems {
namespace {

constexpr double unit = 0x1p-53, smallest = std::numeric_limits<double>::denorm_min();

Magnitude count(std::int64_t n) {
  return Magnitude(static_cast<double>(n));
}

/// x 2^exponent, multiplied in two steps because 2^exponent need not be a double.
Magnitude scaled_up(Magnitude x, int exponent) {
  const int half = exponent / 2;
  return x * Magnitude(std::ldexp(1.0, half)) * Magnitude(std::ldexp(1.0, exponent - half));
}

/// The sum of term(x_i), accumulated in eight lanes, which a compiler keeps in registers.
template <class Term>
double sum_of(std::span<const double> x, Term term) {
  constexpr std::size_t lanes = 8;
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= x.size(); i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += term(x[i + lane]);
  }
  for (; i < x.size(); ++i) sums[0] += term(x[i]);
  double sum = 0.0;
  for (const double lane : sums) sum += lane;
  return sum;
}

Magnitude frobenius_up(std::span<const double> x) {
  const auto n = static_cast<std::int64_t>(x.size());
  return sqrt_up(Magnitude(outward(sum_of(x, [](double t) { return t * t; }), n + 1, n)));
}

/// Upper bound of the largest sum of magnitudes in a row.
Magnitude row_sum_up(const Tensor<double>& x) {
  const std::int64_t n = x.shape[1];
  Magnitude largest;
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    const std::span<const double> row(x.values.data() + i * n, at(n));
    largest = std::max(largest, Magnitude(outward(sum_of(row, [](double t) { return std::abs(t); }), n, 0)));
  }
  return largest;
}

/// The exponent e with 2^(e-1) <= x < 2^e.
int exponent_of(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent;
}

/// Upper bound of ‖W Wᵀ‖₂: the smaller bound for the Gram matrix computed in double, by its eigenvalues or its row
/// sums, plus a bound of the effect of that matrix's error.
Magnitude gram_norm(const Tensor<double>& w, Magnitude frobenius, int threads) {
  const std::int64_t n = w.shape[0], m = w.shape[1];
  const Tensor<double> gram({n, n}, symmetric_product(w, 1, m, threads));
  const Magnitude error =
      count(m) * Magnitude(unit) * frobenius * frobenius + count(m) * count(n) * count(n) * Magnitude(smallest);
  const Magnitude by_rows = row_sum_up(gram) + sqrt_up(count(n)) * error;
  return std::min(largest_eigenvalue(gram) + error, by_rows);
}

/// 2^-exponent w, transposed if w has more rows than columns.
Tensor<double> wide_copy(MatrixView w, int exponent) {
  if (w.rows > w.columns) {
    std::swap(w.rows, w.columns);
    std::swap(w.row_stride, w.column_stride);
  }
  const double half = std::ldexp(1.0, -(exponent / 2)), rest = std::ldexp(1.0, -(exponent - exponent / 2));
  Tensor<double> copy({w.rows, w.columns});
  auto next = copy.values.begin();
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j) *next++ = w.data[i * w.row_stride + j * w.column_stride] * half * rest;
  }
  return copy;
}

/// The largest magnitude; infinite if an element is not finite.
double largest_of(const MatrixView& w) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j)
      largest = std::max(largest, Magnitude(w.data[i * w.row_stride + j * w.column_stride]).value());
  }
  return largest;
}

}  // namespace

Magnitude spectral_norm(const MatrixView& w, int threads) {
  const double largest = largest_of(w);
  if (largest == 0.0) return Magnitude();
  if (!std::isfinite(largest)) return Magnitude::infinite();
  const int exponent = exponent_of(largest);
  const Tensor<double> copy = wide_copy(w, exponent);
  Magnitude norm = frobenius_up(copy.values);
  if (copy.shape[0] > 1) norm = std::min(norm, sqrt_up(gram_norm(copy, norm, threads)));
  return scaled_up(norm + sqrt_up(count(w.rows) * count(w.columns)) * Magnitude(smallest), exponent);
}

namespace {

/// Upper bound of the 2-norm of x, computed after scaling by a power of two: for norms whose square may overflow or
/// underflow.
double norm_of_scaled(std::vector<double> x) {
  const double largest = largest_of({x.data(), static_cast<std::int64_t>(x.size()), 1, 1, 0});
  if (largest == 0.0 || !std::isfinite(largest)) return largest;
  const int exponent = exponent_of(largest);
  for (double& element : x) element = std::ldexp(element, -exponent);
  return scaled_up(frobenius_up(x), exponent).value();
}

}  // namespace

std::vector<double> column_norms(const MatrixView& w) {
  std::vector<double> norms;
  std::vector<double> column(at(w.rows));
  for (std::int64_t j = 0; j < w.columns; ++j) {
    const double* first = w.data + j * w.column_stride;
    for (std::int64_t i = 0; i < w.rows; ++i) column[at(i)] = first[i * w.row_stride];
    const double norm = frobenius_up(column).value();
    const bool is_plain = norm > 0x1p-400 && norm < 0x1p500;
    norms.push_back(is_plain ? norm : norm_of_scaled(column));
  }
  return norms;
}

}  // namespace driftbound::bounds::inline theorems
