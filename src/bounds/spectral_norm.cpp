#include "bounds/spectral_norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "bounds/matrix.hpp"
#include "bounds/symmetric_product.hpp"

namespace driftbound::bounds {
namespace {

constexpr int squarings = 4;
constexpr double unit = 0x1p-53, coarse_unit = 0x1p-24;
constexpr double smallest = std::numeric_limits<double>::denorm_min(), coarse_smallest = 0x1p-149;
constexpr std::int64_t worth_single_precision = 384;

/// A matrix X in double within `error`, in the Frobenius norm, of a symmetric matrix Y without negative eigenvalues.
struct Near {
  Tensor<double> x;  ///< [n, n]
  Magnitude error;
};

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

Magnitude count(std::int64_t n) {
  return Magnitude(static_cast<double>(n));
}

/// x 2^exponent, in two steps as 2^exponent need not be a double.
Magnitude scaled_up(Magnitude x, int exponent) {
  const int half = exponent / 2;
  return x * Magnitude(std::ldexp(1.0, half)) * Magnitude(std::ldexp(1.0, exponent - half));
}

/// The sums run in eight lanes, which a compiler keeps in one register or two.
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

/// The largest sum of magnitudes in a row.
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

/// A matrix in single precision, and how far it is from the one in double in the Frobenius norm.
struct Coarse {
  Tensor<float> x;
  Magnitude error, size;  ///< size: of x, in the same norm
};

Coarse coarse_copy(const Tensor<double>& w, Magnitude norm) {
  Coarse copy{Tensor<float>(w.shape), {}, norm};
  bool is_exact = true;
  for (std::size_t i = 0; i < w.size(); ++i) {
    copy.x.values[i] = static_cast<float>(w.values[i]);
    is_exact = is_exact && static_cast<double>(copy.x.values[i]) == w.values[i];
  }
  if (is_exact) return copy;
  copy.error =
      Magnitude(coarse_unit) * norm + sqrt_up(count(w.shape[0]) * count(w.shape[1])) * Magnitude(coarse_smallest);
  copy.size = norm + copy.error;
  return copy;
}

/// What sums of m products in single precision are off, in a matrix of n columns.
Magnitude coarse_rounding(Magnitude size, std::int64_t m, std::int64_t n) {
  return count(m) * Magnitude(coarse_unit) * size * size + count(m) * count(n) * count(n) * Magnitude(coarse_smallest);
}

Tensor<double> in_double(const std::vector<float>& x, std::int64_t n) {
  return Tensor<double>({n, n}, std::vector<double>(x.begin(), x.end()));
}

Near coarse_gram(const Tensor<double>& w, Magnitude norm, int threads) {
  const std::int64_t n = w.shape[0], m = w.shape[1];
  const Coarse copy = coarse_copy(w, norm);
  const Magnitude e = copy.error;
  return {in_double(symmetric_product(copy.x, 1, m, threads), n),
          coarse_rounding(copy.size, m, n) + Magnitude(2.0) * copy.size * e + e * e};
}

Near gram(const Tensor<double>& w, Magnitude norm, int threads) {
  const std::int64_t n = w.shape[0], m = w.shape[1];
  if (n >= worth_single_precision) return coarse_gram(w, norm, threads);
  const Magnitude underflow = count(m) * count(n) * count(n) * Magnitude(smallest);
  return {Tensor<double>({n, n}, symmetric_product(w, 1, m, threads)),
          count(m) * Magnitude(unit) * norm * norm + underflow};
}

/// Upper bound of ‖Y‖₂ by the Frobenius norm of X or its rows, whichever is smaller.
Magnitude direct_norm(const Near& near, Magnitude frobenius) {
  const Magnitude by_rows = row_sum_up(near.x) + sqrt_up(count(near.x.shape[0])) * near.error;
  return std::min(frobenius + near.error, by_rows);
}

Near squared_coarsely(const Near& near, int threads) {
  const std::int64_t n = near.x.shape[0];
  const Magnitude frobenius = frobenius_up(near.x.values);
  const Coarse copy = coarse_copy(near.x, frobenius);
  const Magnitude e = near.error + copy.error;
  return {in_double(symmetric_product(copy.x, n, 1, threads), n),
          coarse_rounding(copy.size, n, n) + Magnitude(2.0) * direct_norm(near, frobenius) * e + e * e};
}

Near squared(const Near& near, int threads) {
  const std::int64_t n = near.x.shape[0];
  if (n >= worth_single_precision) return squared_coarsely(near, threads);
  const Magnitude frobenius = frobenius_up(near.x.values), e = near.error;
  const Magnitude rounding = count(n) * Magnitude(unit) * frobenius * frobenius;
  const Magnitude underflow = count(n) * count(n) * count(n) * Magnitude(smallest);
  return {Tensor<double>({n, n}, symmetric_product(near.x, n, 1, threads)),
          rounding + Magnitude(2.0) * direct_norm(near, frobenius) * e + e * e + underflow};
}

Near scaled(Near near, int exponent) {
  const double factor = std::ldexp(1.0, exponent);
  const bool is_number = factor > 0x1p-1000 && factor < 0x1p1000;
  for (double& x : near.x.values) x = is_number ? x * factor : std::ldexp(x, exponent);
  near.error = scaled_up(near.error, exponent) + count(near.x.shape[0]) * Magnitude(smallest);
  return near;
}

/// Upper bound of ‖Y‖₂, by ‖Y‖₂ = ‖Y²‖₂^(1/2) as often as `steps` says.
Magnitude norm_up(const Near& near, int steps, int threads) {
  const Magnitude frobenius = frobenius_up(near.x.values);
  if (steps == 0) return direct_norm(near, frobenius);
  const int exponent = exponent_of(frobenius.value());
  return scaled_up(sqrt_up(norm_up(squared(scaled(near, -exponent), threads), steps - 1, threads)), exponent);
}

/// 2^-exponent w in rows as long as the longer side of w.
Tensor<double> wide_copy(MatrixView w, int exponent) {
  if (w.rows > w.columns) {
    std::swap(w.rows, w.columns);
    std::swap(w.row_stride, w.column_stride);
  }
  Tensor<double> copy({w.rows, w.columns});
  auto next = copy.values.begin();
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j)
      *next++ = std::ldexp(w.data[i * w.row_stride + j * w.column_stride], -exponent);
  }
  return copy;
}

/// The largest magnitude, infinite where one is not finite.
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
  if (copy.shape[0] > 1) norm = std::min(norm, sqrt_up(norm_up(gram(copy, norm, threads), squarings, threads)));
  return scaled_up(norm + sqrt_up(count(w.rows) * count(w.columns)) * Magnitude(smallest), exponent);
}

namespace {

/// Where the square of the norm is no number in the middle of the range, the norm of a multiple by a power of two.
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

}  // namespace driftbound::bounds
