#include "num/exact_matrix_vector.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "num/error_free.hpp"
#include "num/exact_scale.hpp"
#include "num/parallel.hpp"

namespace driftbound::num {

namespace {

const FloatRows& checked(const FloatRows& rows) {
  require_sound_environment();
  if (rows.step != 1) throw InvalidArgument("exact matrix: elements of a row must be neighbours; pack an ExactOperand");
  if (rows.length > longest_row) {
    throw InvalidArgument("exact matrix: rows of " + std::to_string(rows.length) +
                          " elements; at most 2^26 are supported");
  }
  return rows;
}

}  // namespace

ExactMatrix::ExactMatrix(const FloatRows& rows, int threads, const ExactKernels& kernels,
                         const IntegerKernels* integers)
    : source_(checked(rows)),
      kernels_(&kernels),
      exponents_(rows.rows, 0),
      scales_(rows.rows, 1.0),
      units_(rows.rows, no_unit),
      finite_(rows.rows, 1),
      integers_(rows.rows, rows.length, integers) {
  parallel_for(static_cast<std::int64_t>(rows.rows), threads, [&](std::int64_t first, std::int64_t last) {
    std::vector<std::int16_t> units(length(), no_unit);
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      const double squares = kernels.squares(row(i), length());
      finite_[i] = std::isfinite(squares);
      if (finite_[i] == 0) continue;
      exponents_[i] = scale_exponent(squares);
      scales_[i] = power_of_two(exponents_[i]);
      units_[i] = kernels.lower_units(row(i), length(), exponents_[i], units.data());
      integers_.take(i, row(i), exponents_[i], units_[i]);
    }
  });
}

namespace {

/// The vector, divided by a power of two above its norm.
class Vector {
public:
  Vector(const float* x, std::size_t length, const ExactKernels& kernels)
      : source_(x), length_(length), scaled_(length + 8, 0.0), units_(length, no_unit) {
    const double squares = kernels.squares(x, length);
    is_finite_ = std::isfinite(squares);
    if (!is_finite_) return;
    const int exponent = scale_exponent(squares);
    scale_ = power_of_two(exponent);
    const double factor = 1.0 / scale_;
    for (std::size_t l = 0; l < length; ++l) scaled_[l] = static_cast<double>(x[l]) * factor;
    unit_ = kernels.lower_units(x, length, exponent, units_.data());
    if (unit_ >= vector_unit) integers_ = IntegerVector(scaled_.data(), length);
  }

  bool is_finite() const { return is_finite_; }
  double scale() const { return scale_; }
  const double* scaled() const { return scaled_.data(); }
  const IntegerVector& integers() const { return integers_; }

  /// Whether the products with a row can be added up as integers: exactly, whatever their last bits.
  bool has_integers_with(const ExactMatrix& w, std::size_t row) const {
    return !integers_.is_empty() && w.integers().has_group_of(row);
  }

  /// Whether the sum of the products with the row is exact: as integers, or if each is a multiple of 2^exact_unit.
  bool certified(const ExactMatrix& w, std::size_t row) const {
    if (w.unit(row) + unit_ >= exact_unit || has_integers_with(w, row)) return true;
    std::vector<std::int16_t> units(length_, no_unit);
    w.kernels().lower_units(w.row(row), length_, w.exponent(row), units.data());
    return w.kernels().lowest(units.data(), units_.data(), length_) >= exact_unit;
  }

  FloatRows as_row() const { return {source_, 1, length_, 0, 1}; }

private:
  const float* source_;
  std::size_t length_;
  std::vector<double> scaled_;
  std::vector<std::int16_t> units_;
  std::int32_t unit_ = no_unit;
  double scale_ = 1.0;
  bool is_finite_ = true;
  IntegerVector integers_;
};

static_assert(dots == integer_rows, "groups of rows are the same for both ways");

void dot_integers(const ExactMatrix& w, const Vector& x, std::size_t group, double* high, double* low) {
  w.integers().dot(group, x.integers(), high, low);
  for (std::size_t r = 0; r < dots; ++r) {
    const double scale = w.scale(std::min(group * dots + r, w.rows() - 1));
    high[r] *= scale;
    low[r] *= scale;
  }
}

/// The last row takes the place of those there are not.
void dot_stream(const ExactMatrix& w, const Vector& x, std::size_t group, double* high, double* low) {
  const float* rows[dots];
  double scales[dots];
  for (std::size_t r = 0; r < dots; ++r) {
    const std::size_t row = std::min(group * dots + r, w.rows() - 1);
    rows[r] = w.row(row);
    scales[r] = w.scale(row);
  }
  w.kernels().dot(rows, scales, w.length(), x.scaled(), high, low);
}

/// Rows [4 group, 4 group + 4) of W, as far as there are.
void multiply_group(const ExactMatrix& w, const Vector& x, std::size_t group, ExactProduct& y) {
  double high[dots], low[dots];
  (x.has_integers_with(w, group * dots) ? dot_integers : dot_stream)(w, x, group, high, low);
  for (std::size_t r = 0; r < dots && group * dots + r < w.rows(); ++r) {
    const ErrorFree sum = two_sum(high[r], low[r]);
    y.high[group * dots + r] = sum.value * x.scale();
    y.low[group * dots + r] = sum.error * x.scale();
  }
}

/// Rows that are not certain to be exact.
void repair(const ExactMatrix& w, const Vector& x, ExactProduct& y, Doubtful doubtful) {
  ExactProduct one;
  for (std::size_t i = 0; i < w.rows(); ++i) {
    const bool defined = x.is_finite() && w.is_finite(i);
    if (defined && x.certified(w, i)) continue;
    if (y.radius.empty()) y.radius.assign(w.rows(), 0.0);
    if (!defined) {
      y.high[i] = std::numeric_limits<double>::quiet_NaN();
      y.low[i] = 0.0;
      y.radius[i] = std::numeric_limits<double>::infinity();
      continue;
    }
    const FloatRows row = {w.row(i), 1, w.length(), 0, 1};
    exact_product(ExactOperand(x.as_row(), Side::left, 1, w.kernels()), ExactOperand(row, Side::right, 1, w.kernels()),
                  one, 1, doubtful);
    y.high[i] = one.high[0];
    y.low[i] = one.low[0];
    y.radius[i] = one.radius_of(0, 0);
  }
}

}  // namespace

void exact_matrix_vector(const ExactMatrix& w, const float* x, ExactProduct& y, int threads, Doubtful doubtful) {
  require_sound_environment();
  y.rows = 1;
  y.columns = w.rows();
  y.high.resize(w.rows());
  y.low.resize(w.rows());
  y.radius.clear();
  const Vector vector(x, w.length(), w.kernels());
  const auto groups = static_cast<std::int64_t>((w.rows() + dots - 1) / dots);
  parallel_for(groups, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t group = first; group < last; ++group) {
      multiply_group(w, vector, static_cast<std::size_t>(group), y);
    }
  });
  repair(w, vector, y, doubtful);
}

}  // namespace driftbound::num
