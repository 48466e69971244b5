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
    bool is_valid = true;
    const Real* row = points.data + first * points.row_stride;
    for (std::size_t r = 0; r < count; ++r, row += points.row_stride) {
      for (std::size_t c = 0; c < dimension_; ++c) {
        const auto x = static_cast<double>(row[static_cast<std::ptrdiff_t>(c) * points.column_stride]);
        is_valid = is_valid && std::fabs(x) <= largest_;
        out[r * dimension_ + c] = x;
      }
    }
    if (!is_valid) refuse(first, {out, count * dimension_});
  }

  /// Throws:    as read()
  void require(std::span<const double> point) const {
    bool is_valid = true;
    for (const double x : point) is_valid = is_valid && std::fabs(x) <= largest_;
    if (!is_valid) refuse(0, point);
  }

private:
  [[noreturn]] void refuse(std::int64_t first, std::span<const double> coordinates) const;

  std::size_t dimension_;
  double largest_;
};

}  // namespace driftbound::implicit
