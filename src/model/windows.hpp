#pragma once

#include <cstdint>
#include <vector>

#include "driftbound/model/ops.hpp"
#include "driftbound/model/tensor.hpp"

namespace driftbound {

/// One axis of a moving window with every number known.
struct WindowAxis {
  std::int64_t input = 1, kernel = 1, stride = 1, dilation = 1;
  std::int64_t before = 0, after = 0;  ///< padding
  std::int64_t output = 1;
};

constexpr std::int64_t largest_window_number = std::int64_t{1} << 40;

/// What a list with one number for each of `axes` axes says of one of them; `fallback` where it is empty.
/// Throws:    ShapeMismatch (another number of entries, a number below `least` or above 2^40)
std::int64_t window_number(const std::vector<std::int64_t>& list, std::size_t axis, std::int64_t fallback,
                           std::int64_t least, const char* what, std::size_t axes);

/// The axes behind [N, C] of a window with the given kernel: output = floor((input + pads - span) / stride) + 1, span =
/// dilation (kernel - 1) + 1. With ceil_mode the quotient is rounded up, but no window starts behind the input and its
/// leading padding.
/// Throws:    ShapeMismatch (wrong number of entries, strides or dilations below 1, negative pads, a kernel that does
///            not fit)
std::vector<WindowAxis> window_axes(const op::WindowGeometry& geometry, const std::vector<std::int64_t>& kernel,
                                    const Shape& input);

/// One axis of a ConvTranspose with every number known.
struct TransposedAxis {
  std::int64_t stride = 1, dilation = 1;
  std::int64_t reach = 0;              ///< of the kernel: dilation (kernel - 1)
  std::int64_t more = 0;               ///< output padding
  std::int64_t before = 0, after = 0;  ///< padding: elements cut off the full result
};

/// Whether the padding follows from the extents of the result.
bool states_extents(const op::ConvTranspose& conv);

/// One of the `axes` axes behind [N, C]; of a padding that states_extents() the odd element goes to the side that opset
/// 11 names.
/// Throws:    ShapeMismatch (wrong number of entries, strides or dilations below 1, negative pads)
TransposedAxis transposed_axis(const op::ConvTranspose& conv, std::size_t axis, std::size_t axes, std::int64_t input,
                               std::int64_t kernel);

}  // namespace driftbound
