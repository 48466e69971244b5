#include "model/selections.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "driftbound/num/errors.hpp"
#include "model/shapes.hpp"
#include "model/strides.hpp"
#include "model/windows.hpp"

namespace driftbound {
namespace {

constexpr std::int64_t largest_extent = std::int64_t{1} << 40;

/// Start, step and number of elements taken along one axis.
struct AxisSlice {
  std::int64_t start = 0, step = 1, count = 0;
};

AxisSlice clamped(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t extent) {
  if (step == 0) throw ShapeMismatch("a step of 0");
  const auto from_end = [extent](std::int64_t i) { return i < 0 ? i + extent : i; };
  const std::int64_t lowest = step > 0 ? 0 : -1;
  const std::int64_t highest = step > 0 ? extent : extent - 1;
  AxisSlice result;
  result.start = std::clamp(from_end(start), lowest, highest);
  result.step = step;
  const std::int64_t stop = std::clamp(from_end(end), lowest, highest);
  const std::int64_t distance = step > 0 ? stop - result.start : result.start - stop;
  if (distance <= 0) return result;
  const std::int64_t size = step > 0 ? step : step < -largest_extent ? largest_extent : -step;
  result.count = (distance - 1) / size + 1;
  return result;
}

std::vector<AxisSlice> slices_of(const op::Slice& slice, const Shape& input) {
  const std::size_t count = slice.starts.size();
  if (slice.ends.size() != count || (!slice.axes.empty() && slice.axes.size() != count) ||
      (!slice.steps.empty() && slice.steps.size() != count) || (slice.axes.empty() && count > input.size())) {
    throw ShapeMismatch("starts, ends, axes and steps differ in length");
  }
  std::vector<AxisSlice> result;
  for (const std::int64_t extent : input) result.push_back({0, 1, extent});
  std::vector<bool> named(input.size(), false);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t axis = slice.axes.empty() ? i : normalized_axis(slice.axes[i], input.size());
    if (named[axis]) throw ShapeMismatch(fmt::format("axis {} is sliced twice", axis));
    named[axis] = true;
    result[axis] = clamped(slice.starts[i], slice.ends[i], slice.steps.empty() ? 1 : slice.steps[i], input[axis]);
  }
  return result;
}

std::int64_t checked_index(std::int64_t index, std::int64_t extent) {
  if (index < -extent || index >= extent) {
    throw ShapeMismatch(fmt::format("index {} is outside an extent of {}", index, extent));
  }
  return index < 0 ? index + extent : index;
}

/// Sources from one source position per axis and output coordinate; empty: filled.
using AxisSources = std::vector<std::optional<std::int64_t>>;

std::vector<ElementSource> by_axes(const Shape& input, const std::vector<AxisSources>& axes) {
  const std::vector<std::int64_t> strides = row_major_strides(input);
  std::vector<ElementSource> sources(1);
  for (std::size_t axis = 0; axis < axes.size(); ++axis) {
    std::vector<ElementSource> finer;
    finer.reserve(sources.size() * axes[axis].size());
    for (const ElementSource& source : sources) {
      for (const std::optional<std::int64_t>& at : axes[axis]) {
        if (source.is_fill() || !at) {
          finer.push_back({ElementSource::fill, 0});
        } else {
          finer.push_back({0, source.index + static_cast<std::size_t>(*at * strides[axis])});
        }
      }
    }
    sources = std::move(finer);
  }
  return sources;
}

std::int64_t extended(std::int64_t extent, std::int64_t before, std::int64_t after) {
  const bool fits = std::max(std::abs(before), std::abs(after)) <= largest_extent && extent + before + after >= 0;
  if (!fits) throw ShapeMismatch(fmt::format("pads {} and {} do not fit an extent of {}", before, after, extent));
  return extent + before + after;
}

std::optional<std::int64_t> padded_source(op::Pad::Mode mode, std::int64_t at, std::int64_t extent) {
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case op::Pad::Mode::constant:
      return std::nullopt;
    case op::Pad::Mode::edge:
      return std::clamp<std::int64_t>(at, 0, extent - 1);
    case op::Pad::Mode::wrap:
      return (at % extent + extent) % extent;
    case op::Pad::Mode::reflect:
      break;
  }
  if (extent == 1) return 0;
  const std::int64_t period = 2 * (extent - 1);
  const std::int64_t phase = (at % period + period) % period;
  return phase < extent ? phase : period - phase;
}

void require_pads_fit(const op::Pad& pad, std::size_t rank) {
  if (pad.before.size() == rank && pad.after.size() == rank) return;
  throw ShapeMismatch(
      fmt::format("pads for {} and {} axes of a tensor of rank {}", pad.before.size(), pad.after.size(), rank));
}

/// The first tap of a window that lies at 0 or behind it, and an end of those inside the input.
struct TapsInside {
  std::int64_t first = 0, end = 0;
};

/// Throws:    ShapeMismatch where there are none
TapsInside taps_inside(const WindowAxis& axis, std::int64_t origin) {
  const std::int64_t first =
      origin >= 0 ? origin : origin + (-origin + axis.dilation - 1) / axis.dilation * axis.dilation;
  const std::int64_t end = std::min(axis.input, origin + axis.dilation * (axis.kernel - 1) + 1);
  if (first < end) return {first, end};
  throw ShapeMismatch(
      fmt::format("a window of {} taps (dilation {}) that starts at {} lies entirely in the padding of an extent of {} "
                  "(pads {} and {}); what it takes the maximum of is nothing",
                  axis.kernel, axis.dilation, origin, axis.input, axis.before, axis.after));
}

/// The position of the tap of this window that lies inside the input and nearest to `at`.
std::int64_t nearest_inside(const WindowAxis& axis, std::int64_t origin, std::int64_t at) {
  const TapsInside taps = taps_inside(axis, origin);
  return std::clamp(at, taps.first, taps.first + (taps.end - 1 - taps.first) / axis.dilation * axis.dilation);
}

/// The outermost windows are the first to miss the input, unless it fits between two taps.
void require_taps_inside(const WindowAxis& axis) {
  constexpr std::int64_t most_tried = 1 << 16;
  const bool fits_between_taps = axis.dilation > axis.input;
  const std::int64_t tried = fits_between_taps ? std::min(axis.output, most_tried) : 1;
  for (std::int64_t window = 0; window < tried; ++window) taps_inside(axis, window * axis.stride - axis.before);
  taps_inside(axis, (axis.output - 1) * axis.stride - axis.before);
}

}  // namespace

Shape slice_shape(const op::Slice& slice, const Shape& input) {
  Shape result;
  for (const AxisSlice& axis : slices_of(slice, input)) result.push_back(axis.count);
  return result;
}

bool keeps_axis(const op::Slice& slice, std::size_t axis, std::size_t rank) {
  constexpr std::int64_t beyond_every_extent = std::numeric_limits<std::int32_t>::max();  // as exporters write it
  for (std::size_t i = 0; i < slice.starts.size(); ++i) {
    if ((slice.axes.empty() ? i : normalized_axis(slice.axes[i], rank)) != axis) continue;
    const std::int64_t step = slice.steps.empty() ? 1 : slice.steps[i];
    if (slice.starts[i] != 0 || slice.ends.at(i) < beyond_every_extent || step != 1) return false;
  }
  return true;
}

std::vector<ElementSource> sliced(const op::Slice& slice, const Shape& input, const Shape&) {
  std::vector<AxisSources> axes;
  for (const AxisSlice& axis : slices_of(slice, input)) {
    AxisSources positions;
    for (std::int64_t i = 0; i < axis.count; ++i) positions.emplace_back(axis.start + i * axis.step);
    axes.push_back(std::move(positions));
  }
  return by_axes(input, axes);
}

Shape gather_shape(const op::Gather& gather, const Shape& input) {
  const auto axis = static_cast<std::ptrdiff_t>(normalized_axis(gather.axis, input.size()));
  if (element_count(gather.indices_shape) != static_cast<std::int64_t>(gather.indices.size())) {
    throw ShapeMismatch("the indices do not fill their shape");
  }
  for (const std::int64_t index : gather.indices) checked_index(index, input[static_cast<std::size_t>(axis)]);
  Shape result(input.begin(), input.begin() + axis);
  result.insert(result.end(), gather.indices_shape.begin(), gather.indices_shape.end());
  result.insert(result.end(), input.begin() + axis + 1, input.end());
  return result;
}

std::vector<ElementSource> gathered(const op::Gather& gather, const Shape& input) {
  const std::size_t picked = normalized_axis(gather.axis, input.size());
  std::vector<AxisSources> axes;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    AxisSources positions;
    if (axis == picked) {
      for (const std::int64_t index : gather.indices) positions.emplace_back(checked_index(index, input[axis]));
    } else {
      for (std::int64_t i = 0; i < input[axis]; ++i) positions.emplace_back(i);
    }
    axes.push_back(std::move(positions));
  }
  return by_axes(input, axes);
}

Shape expand_shape(const op::Expand& expand, const Shape& input) {
  return broadcast(input, expand.target);
}

std::vector<ElementSource> expanded(const Shape& input, const Shape& output) {
  const BroadcastIndex index(input, output);
  std::vector<ElementSource> sources(static_cast<std::size_t>(element_count(output)));
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].index = index(i);
  return sources;
}

Shape tile_shape(const op::Tile& tile, const Shape& input) {
  if (tile.repeats.size() != input.size()) {
    throw ShapeMismatch(fmt::format("{} repeats for a tensor of rank {}", tile.repeats.size(), input.size()));
  }
  Shape result;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    const std::int64_t repeats = tile.repeats[axis];
    const bool fits = repeats >= 0 && (repeats == 0 || input[axis] <= largest_extent / repeats);
    if (!fits) throw ShapeMismatch(fmt::format("{} repeats of an extent of {}", repeats, input[axis]));
    result.push_back(input[axis] * repeats);
  }
  return result;
}

std::vector<ElementSource> tiled(const Shape& input, const Shape& output) {
  std::vector<AxisSources> axes;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    AxisSources positions;
    for (std::int64_t i = 0; i < output[axis]; ++i) positions.emplace_back(i % input[axis]);
    axes.push_back(std::move(positions));
  }
  return by_axes(input, axes);
}

Shape pad_shape(const op::Pad& pad, const Shape& input) {
  require_pads_fit(pad, input.size());
  Shape result;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    const bool has_nothing_to_copy = input[axis] == 0 && pad.mode != op::Pad::Mode::constant;
    if (has_nothing_to_copy) throw ShapeMismatch(fmt::format("axis {} is empty: nothing to pad it with", axis));
    result.push_back(extended(input[axis], pad.before[axis], pad.after[axis]));
  }
  return result;
}

std::vector<ElementSource> padded(const op::Pad& pad, const Shape& input, const Shape& output) {
  std::vector<AxisSources> axes;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    AxisSources positions;
    for (std::int64_t i = 0; i < output[axis]; ++i) {
      positions.push_back(padded_source(pad.mode, i - pad.before[axis], input[axis]));
    }
    axes.push_back(std::move(positions));
  }
  return by_axes(input, axes);
}

Shape where_shape(const op::Where& where, const Shape& a, const Shape& b) {
  if (element_count(where.condition_shape) != static_cast<std::int64_t>(where.condition.size())) {
    throw ShapeMismatch("the condition does not fill its shape");
  }
  return broadcast(broadcast(where.condition_shape, a), b);
}

op::Where both(const op::Where& a, const op::Where& b) {
  op::Where result{broadcast(a.condition_shape, b.condition_shape), {}};
  const BroadcastIndex in_a(a.condition_shape, result.condition_shape), in_b(b.condition_shape, result.condition_shape);
  const auto entries = static_cast<std::size_t>(element_count(result.condition_shape));
  for (std::size_t i = 0; i < entries; ++i) result.condition.push_back(a.condition[in_a(i)] && b.condition[in_b(i)]);
  return result;
}

std::vector<ElementSource> chosen(const op::Where& where, const std::vector<Shape>& inputs, const Shape& output) {
  const BroadcastIndex condition(where.condition_shape, output), a(inputs[0], output), b(inputs[1], output);
  std::vector<ElementSource> sources(static_cast<std::size_t>(element_count(output)));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    sources[i] = where.condition[condition(i)] ? ElementSource{0, a(i)} : ElementSource{1, b(i)};
  }
  return sources;
}

Shape windows_shape(const op::Windows& windows, const Shape& input) {
  const std::vector<WindowAxis> axes = window_axes(windows.geometry, windows.geometry.kernel, input);
  Shape kernel, outputs;
  for (const WindowAxis& axis : axes) {
    if (windows.outside == op::Windows::Outside::nearest) require_taps_inside(axis);
    kernel.push_back(axis.kernel);
    outputs.push_back(axis.output);
  }
  return {input[0], input[1], element_count(kernel), element_count(outputs)};
}

std::vector<ElementSource> windowed(const op::Windows& windows, const Shape& input) {
  const std::vector<WindowAxis> axes = window_axes(windows.geometry, windows.geometry.kernel, input);
  const std::vector<std::int64_t> strides = row_major_strides(input);
  const auto every_position = [&](std::int64_t WindowAxis::*extent, std::int64_t WindowAxis::*step) {
    std::vector<std::vector<std::int64_t>> positions(1);
    for (const WindowAxis& axis : axes) {
      std::vector<std::vector<std::int64_t>> finer;
      for (const std::vector<std::int64_t>& position : positions) {
        for (std::int64_t i = 0; i < axis.*extent; ++i) {
          finer.push_back(position);
          finer.back().push_back(i * (axis.*step));
        }
      }
      positions = std::move(finer);
    }
    return positions;
  };
  const auto taps = every_position(&WindowAxis::kernel, &WindowAxis::dilation);
  const auto origins = every_position(&WindowAxis::output, &WindowAxis::stride);
  const bool takes_nearest = windows.outside == op::Windows::Outside::nearest;
  std::vector<ElementSource> image;  // of one channel, its index relative to the channel's first element
  for (const std::vector<std::int64_t>& tap : taps) {
    for (const std::vector<std::int64_t>& origin : origins) {
      ElementSource source;
      for (std::size_t axis = 0; axis < axes.size() && !source.is_fill(); ++axis) {
        std::int64_t at = origin[axis] + tap[axis] - axes[axis].before;
        if (takes_nearest) at = nearest_inside(axes[axis], origin[axis] - axes[axis].before, at);
        if (at < 0 || at >= axes[axis].input) {
          source = {ElementSource::fill, 0};
        } else {
          source.index += static_cast<std::size_t>(at * strides[axis + 2]);
        }
      }
      image.push_back(source);
    }
  }
  std::vector<ElementSource> sources;
  const auto channels = static_cast<std::size_t>(input[0] * input[1]);
  sources.reserve(channels * image.size());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (ElementSource source : image) {
      if (!source.is_fill()) source.index += channel * static_cast<std::size_t>(strides[1]);
      sources.push_back(source);
    }
  }
  return sources;
}

}  // namespace driftbound
