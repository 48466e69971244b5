#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
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
  return MappedOp{conv_of(node), given_slots(node)};
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

constexpr const char* needs_shape =
    "the extents of its input are not known when loading; export the model with fixed input shapes";

/// x / (bias + alpha / size times the sum of the squares of `size` neighbouring channels)^beta; of an even number one
/// more lies behind.
Mapping map_local_response(const NodeView& node) {
  const std::int64_t size = required_integer(node.proto, "size");
  constexpr std::int64_t largest = 1 << 20;
  if (size < 1 || size > largest) fail("attribute 'size' is " + std::to_string(size));
  const OpenShape* shape = node.operands[0].shape;
  if (shape == nullptr || shape->size() < 2 || !(*shape)[1].is_number()) return NotMapped{needs_shape};
  const auto target = reshape_target(*shape, true);
  if (!target) return NotMapped{needs_shape};
  op::Windows windows;
  windows.geometry.kernel = {size, 1};
  windows.geometry.pads_before = {(size - 1) / 2, 0};
  windows.geometry.pads_after = {size - 1 - (size - 1) / 2, 0};

  // In 16 bits alpha and bias are no numbers of the type: programs compute in float32.
  const ElementType type = node.operands[0].type.value_or(ElementType::f32);
  StepWriter steps(node, is_half(type) ? ElementType::f32 : type);
  const MappedOps::Input x = is_half(type) ? steps.apply(op::Cast{ElementType::f32}, {steps.slot(0)}) : steps.slot(0);
  const MappedOps::Input alpha = steps.number(real_or(node.proto, "alpha", 1e-4f));
  const MappedOps::Input bias = steps.number(real_or(node.proto, "bias", 1.0f));
  const MappedOps::Input count = steps.number(static_cast<double>(size));
  const MappedOps::Input squares = steps.reshape(steps.multiply(x, x), {0, 1, (*shape)[1].value(), -1});
  const MappedOps::Input sums = steps.apply(op::ReduceSum{{2}, false}, {steps.apply(std::move(windows), {squares})});
  const MappedOps::Input mean_factor = steps.divide(alpha, count);
  const MappedOps::Input scaled = steps.multiply(mean_factor, steps.reshape(sums, *target));
  const MappedOps::Input base = steps.add(bias, scaled);
  const MappedOps::Input y = steps.divide(x, steps.apply(op::Pow{real_or(node.proto, "beta", 0.75f)}, {base}));
  return steps.finish(is_half(type) ? steps.apply(op::Cast{type}, {y}) : y);
}

/// The norm of a Reduce: 1 or 2.
std::optional<Op> norm_over(const NodeView& node, Integers64 axes, bool keep_axes) {
  const std::int64_t p = integer_or(node.proto, "p", 2);
  if (p == 1) return op::ReduceL1{std::move(axes), keep_axes};
  if (p == 2) return op::ReduceL2{std::move(axes), keep_axes};
  return std::nullopt;
}

const NotMapped other_norm{"a norm other than those of p = 1 and 2"};

/// Norms of windows, in which padding is 0.
Mapping map_lp_pool(const NodeView& node) {
  for (const char* name : {"ceil_mode", "dilations"}) require_since(node, name, 18);
  op::Windows windows{geometry(node), op::Windows::Outside::zero};
  if (windows.geometry.kernel.empty()) return no_kernel;
  auto norm = norm_over(node, {2}, false);
  if (!norm) return other_norm;
  const OpenShape* open = node.operands[0].shape;
  if (open == nullptr) return NotMapped{needs_shape};
  Shape shape;  // of one sample with one channel
  for (std::size_t axis = 0; axis < open->size(); ++axis) {
    if (axis >= 2 && !(*open)[axis].is_number()) return NotMapped{needs_shape};
    shape.push_back(axis < 2 ? 1 : (*open)[axis].value());
  }
  Integers64 target = {0, 0};
  for (const WindowAxis& axis : window_axes(windows.geometry, windows.geometry.kernel, shape))
    target.push_back(axis.output);
  StepWriter steps(node);
  const MappedOps::Input elements = steps.apply(std::move(windows), {steps.slot(0)});
  return steps.finish(steps.reshape(steps.apply(std::move(*norm), {elements}), std::move(target)));
}

Mapping map_global_lp_pool(const NodeView& node) {
  const auto rank = rank_of(node, 0);
  if (!rank) return NotMapped{needs_shape};
  Integers64 axes;
  for (std::size_t axis = 2; axis < *rank; ++axis) axes.push_back(static_cast<std::int64_t>(axis));
  if (axes.empty()) fail("its input has no axes behind [N, C]");
  auto norm = norm_over(node, std::move(axes), true);
  if (!norm) return other_norm;
  return MappedOp{std::move(*norm), {0}};
}

constexpr std::array<Rule, 9> rules = {{
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
    {"LRN",
     1,
     1,
     composes(map_local_response, "extents known when loading; x / (bias + alpha / size · sum of squares)^beta"),
     {"alpha", "beta", "bias", "size"},
     1},
    {"LpPool",
     1,
     1,
     composes(map_lp_pool, "p = 1 or 2, extents known when loading, since opset 2; a ReduceL1 or ReduceL2 of windows"),
     {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "p", "pads", "strides"},
     2},
    {"GlobalLpPool", 1, 1, composes(map_global_lp_pool, "p = 1 or 2, since opset 2; a ReduceL1 or ReduceL2"), {"p"}, 2},
}};

}  // namespace

op::Conv conv_of(const NodeView& node) {
  return {geometry(node), integer_or(node.proto, "group", 1)};
}

std::span<const Rule> window_rules() {
  return rules;
}

}  // namespace driftbound::onnx
