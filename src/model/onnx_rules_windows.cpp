#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/text.hpp"
#include "model/windows.hpp"

namespace driftbound::onnx {
namespace {

using Integers64 = std::vector<std::int64_t>;
using AutoPad = op::WindowGeometry::AutoPad;

Integers64 list(const NodeView& node, std::string_view name) {
  return checked_rank(find_integers(node.proto, name).value_or(Integers64{}));
}

AutoPad auto_pad(const NodeView& node) {
  const std::string_view name = text_or(node.proto, "auto_pad", "NOTSET");
  if (name == "NOTSET" || name.empty()) return AutoPad::none;
  if (name == "SAME_UPPER") return AutoPad::same_upper;
  if (name == "SAME_LOWER") return AutoPad::same_lower;
  if (name == "VALID") return AutoPad::valid;
  fail("attribute 'auto_pad' is " + in_quotes(name));
}

op::WindowGeometry geometry(const NodeView& node) {
  op::WindowGeometry result;
  result.kernel = list(node, "kernel_shape");
  result.strides = list(node, "strides");
  result.dilations = list(node, "dilations");
  const Integers64 pads = list(node, "pads");
  if (pads.size() % 2 != 0) fail("an odd number of pads");
  const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
  result.pads_before.assign(pads.begin(), pads.begin() + half);
  result.pads_after.assign(pads.begin() + half, pads.end());
  result.auto_pad = auto_pad(node);
  result.ceil_mode = integer_or(node.proto, "ceil_mode", 0) != 0;
  return result;
}

Mapping map_conv(const NodeView& node) {
  return MappedOp{op::Conv{geometry(node), integer_or(node.proto, "group", 1)}, given_slots(node)};
}

/// Whether an odd element of a padding that follows from the extents has to go to one side, or the shapes do not tell.
bool may_split_unevenly(const NodeView& node, const op::ConvTranspose& conv) {
  const OpenShape *x = node.operands[0].shape, *weights = node.operands[1].shape;
  if (x == nullptr || weights == nullptr) return true;
  if (x->size() != weights->size()) return false;  // refused with the other shapes that do not fit
  for (std::size_t axis = 2; axis < x->size(); ++axis) {
    const Extent input = (*x)[axis], kernel = (*weights)[axis];
    if (!input.is_number() || !kernel.is_number()) return true;
    const TransposedAxis numbers = transposed_axis(conv, axis - 2, x->size() - 2, input.value(), kernel.value());
    if (numbers.before != numbers.after) return true;
  }
  return false;
}

Mapping map_conv_transpose(const NodeView& node) {
  op::ConvTranspose conv;
  conv.geometry = geometry(node);
  conv.groups = integer_or(node.proto, "group", 1);
  conv.output_padding = list(node, "output_padding");
  conv.output_shape = list(node, "output_shape");
  if (node.opset < 11 && states_extents(conv) && may_split_unevenly(node, conv))
    return NotMapped{
        "its padding follows from the extents of its result and is odd or not known when loading; before opset 11 "
        "runtimes disagree on the side of the odd element: export the model for opset 11 or newer, or with 'pads'"};
  return MappedOp{conv, given_slots(node)};
}

const NotMapped no_kernel{"attribute 'kernel_shape' is missing"};

Mapping map_max_pool(const NodeView& node) {
  if (uses_more_than_first(node)) return NotMapped{"the positions of its maxima are used"};
  const op::MaxPool pool{geometry(node)};
  if (pool.geometry.kernel.empty()) return no_kernel;
  return MappedOp{pool, {0}};
}

Mapping map_average_pool(const NodeView& node) {
  const op::AveragePool pool{geometry(node), integer_or(node.proto, "count_include_pad", 0) != 0};
  if (pool.geometry.kernel.empty()) return no_kernel;
  return MappedOp{pool, {0}};
}

constexpr std::array<Rule, 6> rules = {{
    {"Conv", 2, 3, means<op::Conv>(map_conv), {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, 1},
    {"ConvTranspose",
     2,
     3,
     means<op::ConvTranspose>(map_conv_transpose),
     {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides"},
     1},
    {"MaxPool",
     1,
     1,
     means<op::MaxPool>(map_max_pool, "the positions of the maxima unused"),
     {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
     1},
    {"AveragePool",
     1,
     1,
     means<op::AveragePool>(map_average_pool),
     {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"},
     1},
    {"GlobalAveragePool", 1, 1, plain<op::GlobalAveragePool>, {}, 1},
    {"GlobalMaxPool", 1, 1, plain<op::GlobalMaxPool>, {}, 1},
}};

}  // namespace

std::span<const Rule> window_rules() {
  return rules;
}

}  // namespace driftbound::onnx
