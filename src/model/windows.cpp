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
    const bool is_same = geometry.auto_pad == AutoPad::same_lower || geometry.auto_pad == AutoPad::same_upper;
    if (geometry.auto_pad == AutoPad::valid) axis.before = axis.after = 0;
    if (is_same) pad_to_same(axis, span, geometry.auto_pad);
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

}  // namespace driftbound
