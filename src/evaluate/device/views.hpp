#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/tensor.hpp"
#include "evaluate/device/interface.h"

namespace driftbound::device {

/// Where operands of the same elements lie, as strides over common extents.
struct Strided {
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;  ///< one an extent
};

/// Views of the same extents, their dimensions merged wherever every operand allows it; one dimension at least.
/// Throws:    Unsupported where more than DRIFTBOUND_DEVICE_MAX_RANK remain
std::vector<driftbound_view> merged_views(const Shape& extents, std::vector<Strided> operands);

/// A tensor without gaps that broadcasts to a shape.
Strided broadcast_strides(const Shape& operand, const Shape& result);

/// One matrix of a product with strides as a BLAS takes them: one of them 1, the other not below the extent it
/// strides over; strides of extents of 1, which mean nothing, are chosen so.
struct MatrixStrides {
  std::int64_t row = 0, col = 0;
  bool fits_blas = false;
};
MatrixStrides matrix_strides(std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::int64_t col_stride);

/// A product of a plan that one call computes: `batches` of A from `first` on as more rows of one A.
struct StackedProduct {
  std::int64_t first = 0, batches = 1;
};
/// Batches that share their B and whose A continue each other's rows are stacked.
std::vector<StackedProduct> stacked_products(const ProductPlan& plan);

}  // namespace driftbound::device
