#pragma once

#include <vector>

#include "driftbound/model/layout.hpp"
#include "driftbound/model/ops.hpp"

namespace driftbound {

// Shapes and sources of the selections that repeat, leave out or fill; output shapes as output_shape() gives them.

Shape slice_shape(const op::Slice& slice, const Shape& input);
Shape gather_shape(const op::Gather& gather, const Shape& input);
Shape expand_shape(const op::Expand& expand, const Shape& input);
Shape tile_shape(const op::Tile& tile, const Shape& input);
Shape pad_shape(const op::Pad& pad, const Shape& input);
Shape where_shape(const op::Where& where, const Shape& a, const Shape& b);
Shape windows_shape(const op::Windows& windows, const Shape& input);

/// Whether the slice takes all of an axis in order, whatever its extent.
/// Throws:    ShapeMismatch as slice_shape
bool keeps_axis(const op::Slice& slice, std::size_t axis, std::size_t rank);

/// The condition that holds where both do, broadcast against each other.
/// Throws:    ShapeMismatch
op::Where both(const op::Where& a, const op::Where& b);

std::vector<ElementSource> sliced(const op::Slice& slice, const Shape& input, const Shape& output);
std::vector<ElementSource> gathered(const op::Gather& gather, const Shape& input);
std::vector<ElementSource> expanded(const Shape& input, const Shape& output);
std::vector<ElementSource> tiled(const Shape& input, const Shape& output);
std::vector<ElementSource> padded(const op::Pad& pad, const Shape& input, const Shape& output);
std::vector<ElementSource> chosen(const op::Where& where, const std::vector<Shape>& inputs, const Shape& output);
std::vector<ElementSource> windowed(const op::Windows& windows, const Shape& input);

}  // namespace driftbound
