#include "reference/coarse_norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "driftbound/model/tensor.hpp"
#include "linalg/symmetric_product.hpp"

namespace driftbound {

namespace {

constexpr double unit = 0x1p-24, smallest = 0x1p-149;

Magnitude count(std::int64_t n) {
  return Magnitude(static_cast<double>(n));
}

Magnitude scaled_up(Magnitude x, int exponent) {
  const int half = exponent / 2;
  return x * Magnitude(std::ldexp(1.0, half)) * Magnitude(std::ldexp(1.0, exponent - half));
}

/// The sum of f(x) over n numbers, in chains that a compiler keeps in a register or two.
template <class F>
double sum_of(const float* x, std::size_t n, F f) {
  constexpr std::size_t chains = 8;
  double sums[chains] = {}, sum = 0.0;
  const std::size_t whole = n / chains * chains;
  for (std::size_t i = 0; i < whole; i += chains) {
    for (std::size_t c = 0; c < chains; ++c) sums[c] += f(static_cast<double>(x[i + c]));
  }
  for (std::size_t i = whole; i < n; ++i) sum += f(static_cast<double>(x[i]));
  for (const double part : sums) sum += part;
  return sum;
}

/// Squares of float32 numbers are doubles, and their sum is rounded once a term.
Magnitude frobenius_up(const std::vector<float>& x) {
  const double sum = sum_of(x.data(), x.size(), [](double t) { return t * t; });
  return sqrt_up(Magnitude(sum) * Magnitude(1.0 + (static_cast<double>(x.size()) + 10.0) * 0x1p-52));
}

/// The largest sum of magnitudes in a row of n.
Magnitude row_sum_up(const std::vector<float>& x, std::size_t n) {
  double largest = 0.0;
  for (std::size_t row = 0; row < x.size(); row += n)
    largest = std::max(largest, sum_of(x.data() + row, n, [](double t) { return std::fabs(t); }));
  return Magnitude(largest) * Magnitude(1.0 + (static_cast<double>(n) + 10.0) * 0x1p-52);
}

/// 2^-exponent w in rows as long as the longer side of w, to nearest.
Tensor<float> wide_copy(bounds::MatrixView w, int exponent) {
  if (w.rows > w.columns) {
    std::swap(w.rows, w.columns);
    std::swap(w.row_stride, w.column_stride);
  }
  const double half = std::ldexp(1.0, -(exponent / 2)), rest = std::ldexp(1.0, -(exponent - exponent / 2));
  Tensor<float> copy({w.rows, w.columns});
  auto next = copy.values.begin();
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j)
      *next++ = static_cast<float>(w.data[i * w.row_stride + j * w.column_stride] * half * rest);
  }
  return copy;
}

/// The largest magnitude; NaN where an element is.
double largest_of(const bounds::MatrixView& w) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < w.rows; ++i) {
    for (std::int64_t j = 0; j < w.columns; ++j) {
      const double x = std::fabs(w.data[i * w.row_stride + j * w.column_stride]);
      if (!(x <= largest)) largest = x;
      if (std::isnan(largest)) return largest;
    }
  }
  return largest;
}

int exponent_of(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent;
}

/// Of a matrix whose 2-norm of all elements is at most `frobenius`: T-63 by one square, w = 2^-24 and 2^-149 for 2^-1074.
Magnitude norm_by_squares(const Tensor<float>& w, Magnitude frobenius) {
  const std::int64_t n = w.shape[0], m = w.shape[1];
  Tensor<float> gram({n, n}, bounds::symmetric_product(w, 1, m, 1));
  Magnitude error =
      count(m) * Magnitude(unit) * frobenius * frobenius + count(m) * count(n) * count(n) * Magnitude(smallest);
  const int exponent = exponent_of(frobenius_up(gram.values).value());
  const auto factor = static_cast<float>(std::ldexp(1.0, -exponent));
  for (float& x : gram.values) x *= factor;
  error = scaled_up(error, -exponent) + count(n) * Magnitude(smallest);
  const Magnitude size = frobenius_up(gram.values);
  const Magnitude rounding =
      count(n) * Magnitude(unit) * size * size + count(n) * count(n) * count(n) * Magnitude(smallest);
  const Magnitude error_of_square = rounding + Magnitude(2.0) * (size + error) * error + error * error;
  const std::vector<float> square = bounds::symmetric_product(gram, n, 1, 1);
  const Magnitude of_square =
      std::min(frobenius_up(square) + error_of_square,
               row_sum_up(square, static_cast<std::size_t>(n)) + sqrt_up(count(n)) * error_of_square);
  return sqrt_up(scaled_up(sqrt_up(of_square), exponent));
}

}  // namespace

Magnitude coarse_spectral_norm(const bounds::MatrixView& w) {
  const double largest = largest_of(w);
  if (largest == 0.0) return Magnitude();
  if (!std::isfinite(largest)) return Magnitude::infinite();
  const int exponent = exponent_of(largest);
  const Tensor<float> copy = wide_copy(w, exponent);
  const Magnitude rounding = Magnitude(unit) * Magnitude(1.0 + 2.0 * unit), elements = count(w.rows) * count(w.columns);
  const Magnitude frobenius = frobenius_up(copy.values);
  const Magnitude norm = copy.shape[0] > 1 ? std::min(frobenius, norm_by_squares(copy, frobenius)) : frobenius;
  return scaled_up(norm + rounding * frobenius + sqrt_up(elements) * Magnitude(smallest), exponent);
}

}  // namespace driftbound
