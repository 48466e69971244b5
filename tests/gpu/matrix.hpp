#pragma once

#include <cstdint>
#include <vector>

#include "gpu/device.hpp"

namespace gpu_tests {

/// A matrix row by row or, transposed, column by column, with a gap between these.
template <class Element>
struct Matrix {
  std::int64_t rows, columns, row_stride, column_stride;
  std::vector<Element> values;

  Matrix(std::int64_t row_count, std::int64_t column_count, bool transposed, std::int64_t gap)
      : rows(row_count),
        columns(column_count),
        row_stride(transposed ? 1 : columns + gap),
        column_stride(transposed ? rows + gap : 1),
        values(static_cast<std::size_t>(transposed ? columns * (rows + gap) : rows * (columns + gap))) {}

  Element at(std::int64_t i, std::int64_t j) const { return values[index(i, j)]; }
  void set(std::int64_t i, std::int64_t j, Element x) { values[index(i, j)] = x; }
  std::size_t index(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(i * row_stride + j * column_stride);
  }
};

/// A product of matrices in the device's memory, into C.
template <class Element, class Result>
struct DeviceProduct {
  Buffer<Element> a, b;
  Buffer<Result> c;
  driftbound_product product;

  DeviceProduct(const Matrix<Element>& left, const Matrix<Element>& right)
      : a(left.values), b(right.values), c(static_cast<std::size_t>(left.rows * right.columns)) {
    product = {left.rows,          right.columns, left.columns,     a.memory(),          left.row_stride,
               left.column_stride, b.memory(),    right.row_stride, right.column_stride, c.memory()};
  }
};

}  // namespace gpu_tests
