#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "driftbound/num/errors.hpp"

namespace driftbound::implicit {

/// Points anywhere in memory: coordinate c of point r is data[r row_stride + c column_stride].
template <class Real>
struct PointView {
  const Real* data = nullptr;
  std::ptrdiff_t row_stride = 0, column_stride = 0;
};

/// The points of a view as doubles, checked: finite, and no larger than the largest number of the input's type.
class PointReader {
public:
  PointReader(std::size_t dimension, double largest) : dimension_(dimension), largest_(largest) {}

  std::size_t dimension() const { return dimension_; }

  /// One point after the other, row by row.
  /// Throws:    InvalidArgument naming the first coordinate that is not finite or too large
  template <class Real>
  void read(const PointView<Real>& points, std::int64_t first, std::size_t count, double* out) const {
    const bool are_side_by_side =
        points.column_stride == 1 && points.row_stride == static_cast<std::ptrdiff_t>(dimension_);
    const bool is_valid = are_side_by_side ? copy(points.data + first * points.row_stride, count * dimension_, 1, out)
                                           : gather(points, first, count, out);
    if (!is_valid) refuse(first, {out, count * dimension_});
  }

  /// Throws:    as read()
  void require(std::span<const double> point) const {
    bool is_valid = true;
    for (const double x : point) is_valid = is_valid && std::fabs(x) <= largest_;
    if (!is_valid) refuse(0, point);
  }

private:
  /// Whether all of them are valid.
  template <class Real>
  bool copy(const Real* x, std::size_t n, std::ptrdiff_t stride, double* out) const {
    bool is_valid = true;
    for (std::size_t i = 0; i < n; ++i, x += stride) {
      out[i] = static_cast<double>(*x);
      is_valid = is_valid && std::fabs(out[i]) <= largest_;
    }
    return is_valid;
  }
  template <class Real>
  bool gather(const PointView<Real>& points, std::int64_t first, std::size_t count, double* out) const {
    bool is_valid = true;
    const Real* row = points.data + first * points.row_stride;
    for (std::size_t r = 0; r < count; ++r, row += points.row_stride)
      is_valid = copy(row, dimension_, points.column_stride, out + r * dimension_) && is_valid;
    return is_valid;
  }
  [[noreturn]] void refuse(std::int64_t first, std::span<const double> coordinates) const;

  std::size_t dimension_;
  double largest_;
};

}  // namespace driftbound::implicit
