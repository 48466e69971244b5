#include "evaluate/device/views.hpp"

#include <algorithm>
#include <string>

#include "driftbound/num/errors.hpp"

namespace driftbound::device {
namespace {

/// Whether for every operand dimension `inner` continues dimension `outer`.
bool merges(const std::vector<Strided>& operands, std::size_t outer, std::size_t inner, std::int64_t inner_extent) {
  return std::all_of(operands.begin(), operands.end(), [&](const Strided& operand) {
    return operand.strides[outer] == operand.strides[inner] * inner_extent;
  });
}

/// Dimension `axis` taken out of every operand.
void drop(std::vector<Strided>& operands, Shape& extents, std::size_t axis) {
  const auto at = static_cast<std::ptrdiff_t>(axis);
  extents.erase(extents.begin() + at);
  for (Strided& operand : operands) operand.strides.erase(operand.strides.begin() + at);
}

void merge_dimensions(std::vector<Strided>& operands, Shape& extents) {
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    if (extents[axis] == 1) drop(operands, extents, axis);
  }
  for (std::size_t inner = extents.size(); inner-- > 1;) {
    const std::size_t outer = inner - 1;
    if (!merges(operands, outer, inner, extents[inner])) continue;
    extents[outer] *= extents[inner];
    for (Strided& operand : operands) operand.strides[outer] = operand.strides[inner];
    drop(operands, extents, inner);
  }
}

driftbound_view view_of(const Strided& operand, const Shape& extents) {
  driftbound_view view{};
  view.rank = static_cast<std::int32_t>(extents.size());
  view.offset = operand.offset;
  std::copy(extents.begin(), extents.end(), view.extent);
  std::copy(operand.strides.begin(), operand.strides.end(), view.stride);
  return view;
}

bool continues_rows(const ProductPlan& plan, std::int64_t batch) {
  const auto at = static_cast<std::size_t>(batch);
  return plan.b_batch[at] == plan.b_batch[at - 1] && plan.a_batch[at] - plan.a_batch[at - 1] == plan.m * plan.a_row;
}

}  // namespace

std::vector<driftbound_view> merged_views(const Shape& extents, std::vector<Strided> operands) {
  Shape merged = extents;
  merge_dimensions(operands, merged);
  if (merged.empty()) {
    merged.push_back(1);
    for (Strided& operand : operands) operand.strides.push_back(1);
  }
  if (merged.size() > DRIFTBOUND_DEVICE_MAX_RANK) {
    throw Unsupported("elements of shape " + to_string(extents) + " lie in memory in more than " +
                      std::to_string(DRIFTBOUND_DEVICE_MAX_RANK) +
                      " dimensions, more than a device takes; use --backend cpu");
  }
  std::vector<driftbound_view> views;
  for (const Strided& operand : operands) views.push_back(view_of(operand, merged));
  return views;
}

Strided broadcast_strides(const Shape& operand, const Shape& result) {
  Strided strided{0, std::vector<std::int64_t>(result.size(), 0)};
  std::int64_t stride = 1;
  for (std::size_t back = 1; back <= operand.size(); ++back) {
    const std::int64_t extent = operand[operand.size() - back];
    if (extent != 1) strided.strides[result.size() - back] = stride;
    stride *= extent;
  }
  return strided;
}

MatrixStrides matrix_strides(std::int64_t rows, std::int64_t cols, std::int64_t row_stride, std::int64_t col_stride) {
  if (cols == 1) col_stride = row_stride == 1 ? rows : 1;
  if (rows == 1) row_stride = col_stride == 1 ? cols : 1;
  const bool by_rows = col_stride == 1 && row_stride >= cols;
  const bool by_columns = row_stride == 1 && col_stride >= rows;
  return {row_stride, col_stride, by_rows || by_columns};
}

std::vector<StackedProduct> stacked_products(const ProductPlan& plan) {
  std::vector<StackedProduct> products;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    if (batch > 0 && continues_rows(plan, batch)) {
      ++products.back().batches;
    } else {
      products.push_back({batch, 1});
    }
  }
  return products;
}

}  // namespace driftbound::device
