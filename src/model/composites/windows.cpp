#include "model/windows.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "driftbound/num/errors.hpp"
#include "model/composites/body.hpp"

namespace driftbound::composites {
namespace {

Shape spatial(const Shape& shape) {
  return shape.size() < 2 ? Shape() : Shape(shape.begin() + 2, shape.end());
}

/// [N, C] and the numbers of windows.
Shape output_of(const std::vector<WindowAxis>& axes, std::int64_t samples, std::int64_t channels) {
  Shape shape = {samples, channels};
  for (const WindowAxis& axis : axes) shape.push_back(axis.output);
  return shape;
}

void require_groups(std::int64_t groups, std::int64_t channels, std::int64_t filters) {
  if (groups >= 1 && channels % groups == 0 && filters % groups == 0) return;
  throw ShapeMismatch(fmt::format("{} channels and {} filters in {} groups", channels, filters, groups));
}

/// A matrix for every group.
Shape by_groups(std::int64_t groups, Shape matrix) {
  if (groups > 1) matrix.insert(matrix.begin(), groups);
  return matrix;
}

/// The third input, a number for each filter, as a column of every group.
std::optional<ValueId> bias_of(Body& body, std::int64_t groups, const Shape& result) {
  if (body.input_count() < 3) return std::nullopt;
  const Shape bias = body.shape(body.input(2));
  if (element_count(bias) != result[1]) {
    throw ShapeMismatch(
        fmt::format("a bias {} for the {} channels of {}", to_string(bias), result[1], to_string(result)));
  }
  return body.reshape(body.input(2), by_groups(groups, {result[1] / groups, 1}));
}

/// Every filter times every window, and the bias: weights [M, C / groups, kernel...], windows of x [N, C, D...]. The bias
/// is one term of the sum, since programs may start with it.
ValueId correlate(Body& body, ValueId x, ValueId weights, op::WindowGeometry geometry, std::int64_t groups) {
  const Shape shape = body.shape(x), filter = body.shape(weights);
  if (shape.size() < 3 || filter.size() != shape.size()) {
    throw ShapeMismatch(fmt::format("weights {} for an input {}", to_string(filter), to_string(shape)));
  }
  require_groups(groups, shape[1], filter[0]);
  if (filter[1] * groups != shape[1]) {
    throw ShapeMismatch(fmt::format("weights {} in {} groups for {} channels", to_string(filter), groups, shape[1]));
  }
  geometry.kernel = spatial(filter);
  const std::vector<WindowAxis> axes = window_axes(geometry, geometry.kernel, shape);
  const std::int64_t terms = filter[1] * element_count(geometry.kernel);
  const Shape result = output_of(axes, shape[0], filter[0]);
  const std::int64_t windows = element_count(spatial(result));
  Shape of_columns = by_groups(groups, {terms, windows});
  of_columns.insert(of_columns.begin(), shape[0]);
  const ValueId columns =
      body.reshape(body.apply(op::Windows{geometry, op::Windows::Outside::zero}, {x}), std::move(of_columns));
  const ValueId rows = body.reshape(weights, by_groups(groups, {filter[0] / groups, terms}));
  const std::optional<ValueId> bias = bias_of(body, groups, result);
  const ValueId sums =
      bias ? body.apply(op::Gemm{}, {rows, columns, *bias}) : body.apply(op::MatMul{}, {rows, columns});
  return body.reshape(sums, result);
}

/// x with stride - 1 zeros between neighbours along a spatial axis.
ValueId spread(Body& body, ValueId x, std::size_t axis, std::int64_t stride) {
  if (stride == 1) return x;
  const Shape shape = body.shape(x);
  Shape split = shape;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  op::Pad pad;
  pad.before.assign(split.size(), 0);
  pad.after = pad.before;
  pad.after[axis + 1] = stride - 1;
  const ValueId padded = body.apply(pad, {body.reshape(x, split)});
  Shape joined = shape;
  joined[axis] *= stride;
  op::Slice slice;
  slice.starts = {0};
  slice.ends = {(shape[axis] - 1) * stride + 1};
  slice.axes = {static_cast<std::int64_t>(axis)};
  return body.apply(slice, {body.reshape(padded, joined)});
}

/// Weights [C, M / groups, kernel...] as those of the correlation that ConvTranspose is: [M, C / groups, kernel
/// reversed].
ValueId transposed_weights(Body& body, ValueId weights, std::int64_t groups) {
  const Shape shape = body.shape(weights);
  Shape split = {groups, shape[0] / groups, shape[1]};
  split.insert(split.end(), shape.begin() + 2, shape.end());
  op::Transpose swap;
  for (std::size_t axis = 0; axis < split.size(); ++axis) swap.permutation.push_back(static_cast<std::int64_t>(axis));
  std::swap(swap.permutation[1], swap.permutation[2]);
  Shape joined = {groups * shape[1], shape[0] / groups};
  joined.insert(joined.end(), shape.begin() + 2, shape.end());
  const ValueId swapped = body.reshape(body.apply(swap, {body.reshape(weights, split)}), joined);
  op::Slice reversed;
  for (std::size_t axis = 2; axis < shape.size(); ++axis) {
    reversed.starts.push_back(-1);
    reversed.ends.push_back(std::numeric_limits<std::int64_t>::min());
    reversed.axes.push_back(static_cast<std::int64_t>(axis));
    reversed.steps.push_back(-1);
  }
  return body.apply(reversed, {swapped});
}

void require_kernel(const op::WindowGeometry& geometry, const Shape& filter) {
  if (geometry.kernel.empty() || geometry.kernel == spatial(filter)) return;
  throw ShapeMismatch(fmt::format("kernel_shape {} for weights {}", to_string(geometry.kernel), to_string(filter)));
}

}  // namespace

ValueId write(Body& body, const op::Conv& conv) {
  require_kernel(conv.geometry, body.shape(body.input(1)));
  return correlate(body, body.input(0), body.input(1), conv.geometry, conv.groups);
}

ValueId write(Body& body, const op::ConvTranspose& conv) {
  ValueId x = body.input(0);
  const Shape shape = body.shape(x), filter = body.shape(body.input(1));
  if (shape.size() < 3 || filter.size() != shape.size() || filter[0] != shape[1]) {
    throw ShapeMismatch(fmt::format("weights {} for an input {}", to_string(filter), to_string(shape)));
  }
  require_groups(conv.groups, shape[1], shape[1]);
  require_kernel(conv.geometry, filter);
  op::Pad pad;
  pad.before = pad.after = {0, 0};
  op::WindowGeometry geometry;
  geometry.dilations = conv.geometry.dilations;
  for (std::size_t axis = 0; axis + 2 < shape.size(); ++axis) {
    const TransposedAxis numbers = transposed_axis(conv, axis, shape.size() - 2, shape[axis + 2], filter[axis + 2]);
    pad.before.push_back(numbers.reach - numbers.before);
    pad.after.push_back(numbers.reach - numbers.after + numbers.more);
    x = spread(body, x, axis + 2, numbers.stride);
  }
  const ValueId weights = transposed_weights(body, body.input(1), conv.groups);
  return correlate(body, body.apply(pad, {x}), weights, geometry, conv.groups);
}

ValueId write(Body& body, const op::MaxPool& pool) {
  const Shape shape = body.shape(body.input(0));
  const std::vector<WindowAxis> axes = window_axes(pool.geometry, pool.geometry.kernel, shape);
  const ValueId windows = body.apply(op::Windows{pool.geometry, op::Windows::Outside::nearest}, {body.input(0)});
  return body.reshape(body.apply(op::ReduceMax{{2}, false}, {windows}), output_of(axes, shape[0], shape[1]));
}

namespace {

/// Elements of one axis that an average divides by: those inside, and the padding where it counts (never what a
/// window rounded up covers beyond it).
std::int64_t counted(const WindowAxis& axis, std::int64_t window, bool counts_padding) {
  const std::int64_t least = counts_padding ? -axis.before : 0;
  const std::int64_t end = axis.input + (counts_padding ? axis.after : 0);
  const std::int64_t origin = window * axis.stride - axis.before;
  const auto taps_before = [&](std::int64_t limit) {  // that lie in front of the position
    const std::int64_t distance = limit - origin;
    return distance <= 0 ? 0 : std::min(axis.kernel, (distance - 1) / axis.dilation + 1);
  };
  return taps_before(end) - taps_before(least);
}

/// The numbers of elements along one axis, in the shape that broadcasts over [N, C, outputs...].
ValueId counts_of(Body& body, const std::vector<WindowAxis>& axes, std::size_t which, bool counts_padding) {
  constexpr std::int64_t most_windows = std::int64_t{1} << 20;
  const WindowAxis& axis = axes[which];
  if (axis.output > most_windows || axis.kernel > most_windows) {
    throw ShapeMismatch(
        fmt::format("{} windows of {} taps along one axis are more than 2^20", axis.output, axis.kernel));
  }
  Shape shape(axes.size() - which, 1);
  shape[0] = axis.output;
  Tensor<double> counts(shape, {});
  for (std::int64_t window = 0; window < axis.output; ++window) {
    counts.values.push_back(static_cast<double>(counted(axis, window, counts_padding)));
  }
  return body.constant(std::move(counts));
}

}  // namespace

ValueId write(Body& body, const op::AveragePool& pool) {
  const Shape shape = body.shape(body.input(0));
  const std::vector<WindowAxis> axes = window_axes(pool.geometry, pool.geometry.kernel, shape);
  const ValueId windows = body.apply(op::Windows{pool.geometry, op::Windows::Outside::zero}, {body.input(0)});
  const ValueId sums =
      body.reshape(body.apply(op::ReduceSum{{2}, false}, {windows}), output_of(axes, shape[0], shape[1]));
  ValueId counts = counts_of(body, axes, 0, pool.counts_padding);
  for (std::size_t axis = 1; axis < axes.size(); ++axis) {
    counts = body.multiply(counts, counts_of(body, axes, axis, pool.counts_padding));
  }
  return body.divide(sums, counts);
}

namespace {

std::vector<std::int64_t> spatial_axes(const Shape& shape) {
  if (shape.size() < 3) throw ShapeMismatch(fmt::format("{} has no axes behind [N, C]", to_string(shape)));
  return axes_from(2, shape.size());
}

}  // namespace

ValueId write(Body& body, const op::GlobalAveragePool&) {
  return body.mean(body.input(0), spatial_axes(body.shape(body.input(0))));
}

ValueId write(Body& body, const op::GlobalMaxPool&) {
  return body.apply(op::ReduceMax{spatial_axes(body.shape(body.input(0))), true}, {body.input(0)});
}

}  // namespace driftbound::composites
