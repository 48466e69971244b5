#include "model/windows.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

using AutoPad = op::WindowGeometry::AutoPad;

std::int64_t ceil_quotient(std::int64_t a, std::int64_t b) {
  return a / b + (a % b > 0 ? 1 : 0);
}

/// Pads so that there are ceil(input / stride) windows; the odd element goes to the side that the mode names.
void pad_to_same(WindowAxis& axis, std::int64_t span, AutoPad mode) {
  const std::int64_t wanted = ceil_quotient(axis.input, axis.stride);
  const std::int64_t pads = std::max<std::int64_t>(0, (wanted - 1) * axis.stride + span - axis.input);
  axis.before = mode == AutoPad::same_lower ? pads - pads / 2 : pads / 2;
  axis.after = pads - axis.before;
}

bool is_same(AutoPad mode) {
  return mode == AutoPad::same_lower || mode == AutoPad::same_upper;
}

void require_product(std::int64_t a, std::int64_t b) {
  if (a > largest_window_number / std::max<std::int64_t>(b, 1)) {
    throw ShapeMismatch(fmt::format("{} times {} elements along an axis are more than 2^40", a, b));
  }
}

/// Pads so that the result has the extent stated.
void cut_to(TransposedAxis& axis, std::int64_t wanted, std::int64_t input, AutoPad mode) {
  const std::int64_t total = axis.stride * (input - 1) + axis.more + axis.reach + 1 - wanted;
  const std::int64_t half = (total - (total % 2 == 0 ? 0 : 1)) / 2;  // rounded down, also below 0
  axis.before = mode == AutoPad::same_upper ? half : total - half;
  axis.after = total - axis.before;
}

}  // namespace

std::int64_t window_number(const std::vector<std::int64_t>& list, std::size_t axis, std::int64_t fallback,
                           std::int64_t least, const char* what, std::size_t axes) {
  if (list.empty()) return fallback;
  if (list.size() != axes) {
    throw ShapeMismatch(fmt::format("{} {} for {} spatial axes", list.size(), what, axes));
  }
  if (list[axis] < least || list[axis] > largest_window_number) {
    throw ShapeMismatch(fmt::format("{} {}", what, list[axis]));
  }
  return list[axis];
}

std::vector<WindowAxis> window_axes(const op::WindowGeometry& geometry, const std::vector<std::int64_t>& kernel,
                                    const Shape& input) {
  if (input.size() < 3) throw ShapeMismatch(fmt::format("{} has no axes behind [N, C]", to_string(input)));
  const std::size_t count = input.size() - 2;
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < count; ++i) {
    WindowAxis axis;
    axis.input = input[i + 2];
    axis.kernel = window_number(kernel, i, 1, 1, "kernel extents", count);
    axis.stride = window_number(geometry.strides, i, 1, 1, "strides", count);
    axis.dilation = window_number(geometry.dilations, i, 1, 1, "dilations", count);
    axis.before = window_number(geometry.pads_before, i, 0, 0, "pads", count);
    axis.after = window_number(geometry.pads_after, i, 0, 0, "pads", count);
    if (axis.kernel > largest_window_number / axis.dilation)
      throw ShapeMismatch("a dilated kernel of more than 2^40 elements");
    const std::int64_t span = axis.dilation * (axis.kernel - 1) + 1;
    if (geometry.auto_pad == AutoPad::valid) axis.before = axis.after = 0;
    if (is_same(geometry.auto_pad)) pad_to_same(axis, span, geometry.auto_pad);
    const std::int64_t room = axis.input + axis.before + axis.after - span;
    if (room < 0) {
      throw ShapeMismatch(fmt::format("a kernel that spans {} does not fit extent {} with pads {} and {}", span,
                                      axis.input, axis.before, axis.after));
    }
    axis.output = (geometry.ceil_mode ? ceil_quotient(room, axis.stride) : room / axis.stride) + 1;
    const bool starts_behind = (axis.output - 1) * axis.stride >= axis.input + axis.before;
    if (geometry.ceil_mode && starts_behind) --axis.output;
    axes.push_back(axis);
  }
  return axes;
}

bool states_extents(const op::ConvTranspose& conv) {
  return is_same(conv.geometry.auto_pad) || !conv.output_shape.empty();
}

TransposedAxis transposed_axis(const op::ConvTranspose& conv, std::size_t axis, std::size_t axes, std::int64_t input,
                               std::int64_t kernel) {
  const op::WindowGeometry& geometry = conv.geometry;
  TransposedAxis result;
  result.stride = window_number(geometry.strides, axis, 1, 1, "strides", axes);
  result.dilation = window_number(geometry.dilations, axis, 1, 1, "dilations", axes);
  result.more = window_number(conv.output_padding, axis, 0, 0, "output padding", axes);
  require_product(result.stride, input);
  require_product(result.dilation, kernel);
  result.reach = result.dilation * (kernel - 1);
  const std::int64_t before = window_number(geometry.pads_before, axis, 0, 0, "pads", axes);
  const std::int64_t after = window_number(geometry.pads_after, axis, 0, 0, "pads", axes);
  if (states_extents(conv)) {
    const std::int64_t same = input * result.stride;
    cut_to(result, window_number(conv.output_shape, axis, same, 1, "output extents", axes), input, geometry.auto_pad);
  } else if (geometry.auto_pad == AutoPad::none) {
    result.before = before;
    result.after = after;
  }
  return result;
}

}  // namespace driftbound
