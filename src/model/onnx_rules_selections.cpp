#include <algorithm>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

using Integers64 = std::vector<std::int64_t>;

/// Throws:    Unsupported where a step backwards starts in front of its axis, or may do so
void require_starts(const NodeView& node, const op::Slice& slice) {
  const bool names_axes = !slice.axes.empty();
  const std::size_t count = std::min(slice.starts.size(), slice.steps.size());
  for (std::size_t i = 0; i < (names_axes ? std::min(count, slice.axes.size()) : count); ++i) {
    const std::int64_t start = slice.starts[i];
    if (slice.steps[i] >= 0 || start >= -1) continue;
    const auto extent = extent_along(node, names_axes ? slice.axes[i] : static_cast<std::int64_t>(i));
    if (!extent)
      throw Unsupported("a negative step from start " + std::to_string(start) +
                        " of an axis whose extent is not known when loading; export the model with fixed input shapes");
    require_start(start, slice.steps[i], *extent);
  }
}

/// Attributes before opset 10, inputs from then on.
Mapping map_slice(const NodeView& node) {
  op::Slice slice;
  if (node.opset < 10) {
    slice.starts = checked_rank(find_integers(node.proto, "starts").value_or(Integers64{}));
    slice.ends = checked_rank(find_integers(node.proto, "ends").value_or(Integers64{}));
    slice.axes = checked_rank(find_integers(node.proto, "axes").value_or(Integers64{}));
    return MappedOp{slice, {0}};
  }
  if (!is_given(node, 1) || !is_given(node, 2)) fail("its starts or ends are missing");
  const std::array<Integers64*, 4> lists = {&slice.starts, &slice.ends, &slice.axes, &slice.steps};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (!is_given(node, i + 1)) continue;
    const auto values = constant_integers(node, i + 1);
    if (!values) return NotMapped{"its bounds are computed, not constants"};
    *lists[i] = *values;
  }
  require_starts(node, slice);
  return MappedOp{slice, {0}};
}

Mapping map_gather(const NodeView& node) {
  const StoredTensor* indices = node.operands[1].constant;
  if (indices == nullptr) return NotMapped{"its indices are computed, not constants"};
  if (is_float(indices->type())) fail("its indices are no integers");
  Tensor<std::int64_t> values = indices->to_int64();
  return MappedOp{op::Gather{integer_or(node.proto, "axis", 0), std::move(values.shape), std::move(values.values)},
                  {0}};
}

/// A target of which axis 0 alone is open: by the rows of a graph input, of which a single element is kept.
/// Elements of that are in no result.
std::optional<Mapping> map_expand_to_rows(const NodeView& node) {
  const auto integers = Integers::of(node.operands[1]);
  const auto rank = rank_of(node, 0);
  const auto& type = node.operands[0].type;
  if (!integers || !rank || !type || integers->shape().size() != 1 || integers->size() > highest_rank)
    return std::nullopt;
  const OpenShape& own = *node.operands[0].shape;
  if (integers->size() == 0 || *rank > integers->size() || !(*integers)[0].is_open() || (*integers)[0].factor() != 1)
    return std::nullopt;
  const bool has_rows = *rank == integers->size() && !(own[0].is_number() && own[0].value() == 1);
  const std::size_t symbol = (*integers)[0].symbol();
  const std::optional<ElementType> of_input = node.open_inputs[symbol];
  if (has_rows || !of_input) return std::nullopt;
  op::Expand one_row{{1}};
  op::Reshape behind_rows{{0}, false};
  for (std::size_t axis = 1; axis < integers->size(); ++axis) {
    if (!(*integers)[axis].is_number()) return std::nullopt;
    one_row.target.push_back((*integers)[axis].value());
    behind_rows.target.push_back(1);
  }
  MappedOps mapped;
  const MappedOps::Input row = mapped.add(std::move(one_row), {MappedOps::slot(0)});
  MappedOps::Input rows = mapped.add(op::Flatten{1}, {{MappedOps::Source::open_input, symbol}});
  rows = mapped.add(op::Slice{{0}, {1}, {1}, {}}, {rows});
  rows = mapped.add(std::move(behind_rows), {rows});
  if (*of_input != *type) rows = mapped.add(op::Cast{*type}, {rows});
  mapped.outputs = {mapped.add(op::Where{{}, {true}}, {row, rows})};
  return mapped;
}

Mapping map_expand(const NodeView& node) {
  if (const auto target = constant_integers(node, 1)) return MappedOp{op::Expand{*target}, {0}};
  if (auto mapped = map_expand_to_rows(node)) return std::move(*mapped);
  return NotMapped{"its shape is computed, not a constant"};
}

Mapping map_tile(const NodeView& node) {
  const auto repeats = constant_integers(node, 1);
  if (!repeats) return NotMapped{"its repeats are computed, not constants"};
  return MappedOp{op::Tile{*repeats}, {0}};
}

op::Pad::Mode pad_mode(std::string_view name) {
  if (name == "constant") return op::Pad::Mode::constant;
  if (name == "reflect") return op::Pad::Mode::reflect;
  if (name == "edge") return op::Pad::Mode::edge;
  if (name == "wrap") return op::Pad::Mode::wrap;
  fail("attribute 'mode' is " + in_quotes(name));
}

/// All the begins, then all the ends, of the axes named (opset 18) or of every axis.
Mapping with_pads(op::Pad pad, const Integers64& pads, const std::optional<Integers64>& axes,
                  std::optional<std::size_t> rank) {
  if (pads.size() % 2 != 0) fail("an odd number of pads");
  const auto half = static_cast<std::ptrdiff_t>(pads.size() / 2);
  if (!axes) {
    pad.before.assign(pads.begin(), pads.begin() + half);
    pad.after.assign(pads.begin() + half, pads.end());
    return MappedOp{pad, {0}};
  }
  if (!rank) return NotMapped{"it pads some axes of a tensor of unknown rank"};
  if (axes->size() != pads.size() / 2) fail("pads for another number of axes than are named");
  pad.before.assign(*rank, 0);
  pad.after = pad.before;
  for (std::size_t i = 0; i < axes->size(); ++i) {
    const auto signed_rank = static_cast<std::int64_t>(*rank);
    const std::int64_t axis = (*axes)[i] < 0 ? (*axes)[i] + signed_rank : (*axes)[i];
    if (axis < 0 || axis >= signed_rank) fail("there is no axis " + std::to_string((*axes)[i]));
    pad.before[static_cast<std::size_t>(axis)] = pads[i];
    pad.after[static_cast<std::size_t>(axis)] = pads[i + axes->size()];
  }
  return MappedOp{pad, {0}};
}

Mapping map_pad(const NodeView& node) {
  op::Pad pad;
  pad.mode = pad_mode(text_or(node.proto, "mode", "constant"));
  if (node.opset >= 2 && find_integers(node.proto, "paddings")) fail("attribute 'paddings' is 'pads' since opset 2");
  if (node.opset < 11) {
    pad.value = real_or(node.proto, "value", 0.0f);
    const auto pads = find_integers(node.proto, node.opset < 2 ? "paddings" : "pads");
    if (!pads) fail("its pads are missing");
    return with_pads(pad, checked_rank(*pads), std::nullopt, std::nullopt);
  }
  if (!is_given(node, 1)) fail("its pads are missing");
  const auto pads = constant_integers(node, 1);
  if (!pads) return NotMapped{"its pads are computed, not constants"};
  if (is_given(node, 2)) {
    const auto value = constant_number(node, 2);
    if (!value) return NotMapped{"the value it pads with is computed, not a constant"};
    pad.value = *value;
  }
  std::optional<Integers64> axes;
  if (is_given(node, 3)) {
    axes = constant_integers(node, 3);
    if (!axes) return computed_axes;
  }
  return with_pads(pad, *pads, axes, rank_of(node, 0));
}

Mapping map_where(const NodeView& node) {
  const StoredTensor* condition = node.operands[0].constant;
  if (condition == nullptr) return MappedOp{op::Choice{}, {0, 1, 2}};
  op::Where where;
  where.condition_shape = condition->shape();
  if (condition->type() != ElementType::boolean) fail("its condition is no boolean");
  for (const std::byte value : condition->bytes()) where.condition.push_back(value != std::byte{0});
  return MappedOp{where, {1, 2}};
}

/// 'num_outputs' says since opset 18 how many equal parts there are.
void require_number_of_outputs(const NodeView& node) {
  const auto attribute = find_attribute(node.proto, "num_outputs", AttributeType::integer);
  if (!attribute) return;
  if (node.opset < 18)
    fail("attribute 'num_outputs' is there since opset 18 only; declare that opset, or leave it out");
  if (is_given(node, 1)) fail("attribute 'num_outputs' and input 1 ('split') are both given; leave one of them out");
  const std::int64_t count = attribute->integer.value_or(0);
  if (!std::cmp_equal(count, node.is_used.size()))
    fail("attribute 'num_outputs' is " + std::to_string(count) + " for " + std::to_string(node.is_used.size()) +
         " outputs; list one name a part, empty where it is not used");
}

/// Equal parts, of which the last may be smaller since opset 18.
Integers64 equal_parts(const NodeView& node, std::int64_t extent) {
  const auto count = static_cast<std::int64_t>(node.is_used.size());
  if (count == 0) fail("it has no outputs");
  const std::int64_t part = extent / count + (extent % count == 0 ? 0 : 1), last = extent - part * (count - 1);
  if (last < 0 || (last < part && node.opset < 18))
    fail("an axis of " + std::to_string(extent) + " does not split into " + std::to_string(count) +
         " equal parts; give their extents ('split')");
  Integers64 parts(node.is_used.size(), part);
  parts.back() = last;
  return parts;
}

/// Throws:    ParseError unless there is one part an output and they make up the axis, where its extent is known
void require_parts(const NodeView& node, const Integers64& parts, const std::optional<std::int64_t>& extent) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 40;
  if (parts.size() != node.is_used.size())
    fail(std::to_string(parts.size()) + " parts for " + std::to_string(node.is_used.size()) + " outputs");
  std::int64_t sum = 0;
  for (const std::int64_t part : parts) {
    if (part < 0 || part > most_elements) fail("a part of " + std::to_string(part) + " elements");
    sum += part;
  }
  if (extent && sum != *extent)
    fail("its parts are " + std::to_string(sum) + " elements together, the axis has " + std::to_string(*extent));
}

/// Extents of the parts: as given (by an attribute before opset 13), or equal ones.
std::optional<Integers64> parts_of(const NodeView& node, const std::optional<std::int64_t>& extent) {
  if (const auto parts = find_integers(node.proto, "split")) return checked_rank(*parts);
  if (is_given(node, 1)) return constant_integers(node, 1);
  return extent ? std::optional(equal_parts(node, *extent)) : std::nullopt;
}

Mapping map_split(const NodeView& node) {
  require_number_of_outputs(node);
  const std::int64_t axis = integer_or(node.proto, "axis", 0);
  const auto extent = extent_along(node, axis);
  const auto parts = parts_of(node, extent);
  if (!parts) return NotMapped{"the extents of its parts are computed, or not known when loading"};
  require_parts(node, *parts, extent);
  MappedOps mapped;
  std::int64_t start = 0;
  for (const std::int64_t part : *parts) {
    mapped.outputs.push_back(mapped.add(op::Slice{{start}, {start + part}, {axis}, {}}, {MappedOps::slot(0)}));
    start += part;
  }
  return mapped;
}

template <bool is_smallest>
Mapping map_largest_index(const NodeView& node) {
  op::ArgMax largest;
  largest.axis = integer_or(node.proto, "axis", 0);
  largest.keep_axis = integer_or(node.proto, "keepdims", 1) != 0;
  require_since(node, "select_last_index", 12);
  largest.last = integer_or(node.proto, "select_last_index", 0) != 0;
  largest.smallest = is_smallest;
  return MappedOp{largest, {0}};
}

/// `k` is an attribute before opset 10.
Mapping map_largest(const NodeView& node) {
  op::TopK largest;
  largest.axis = integer_or(node.proto, "axis", -1);
  if (node.opset < 10) {
    largest.count = required_integer(node.proto, "k");
  } else {
    const auto count = constant_integers(node, 1);
    if (!count) return NotMapped{"the number of its elements is computed, not a constant"};
    if (count->size() != 1) fail("its input 1 ('K') must be one number");
    largest.count = count->front();
  }
  const auto extent = extent_along(node, largest.axis);
  if (largest.count == 0) return NotMapped{"it takes no element at all"};
  if (largest.count < 0 || (extent && largest.count > *extent))
    fail("it takes " + std::to_string(largest.count) + " elements" +
         (extent ? " of " + std::to_string(*extent) : std::string()));
  if (largest.count > 1 && integer_or(node.proto, "sorted", 1) == 0)
    return NotMapped{"it gives its elements in no order (sorted = 0), in which no two runs compare; export sorted = 1"};
  largest.smallest = integer_or(node.proto, "largest", 1) == 0;
  MappedOps ops;
  const MappedOps::Input x = MappedOps::slot(0);
  MappedOps::Input values = x, indices = x;  // what is not read may be anything
  const auto is_used = [&](std::size_t output) { return output < node.is_used.size() && node.is_used[output]; };
  if (is_used(0) || !is_used(1)) values = ops.add(largest, {x});
  largest.result = op::TopK::Result::indices;
  if (is_used(1)) indices = ops.add(largest, {x});
  ops.outputs = {values, indices};
  return ops;
}

constexpr std::array<Rule, 10> rules = {{
    {"ArgMax", 1, 1, means<op::ArgMax>(map_largest_index<false>), {"axis", "keepdims", "select_last_index"}, 1},
    {"ArgMin", 1, 1, means<op::ArgMax>(map_largest_index<true>), {"axis", "keepdims", "select_last_index"}, 1},
    {"TopK",
     1,
     2,
     means<op::TopK>(map_largest, "a constant number of elements"),
     {"axis", "k", "largest", "sorted"},
     1,
     {},
     {{{"k", 1, 10}}}},
    {"Slice",
     1,
     5,
     means<op::Slice>(map_slice, "constant bounds, axes and steps"),
     {"starts", "ends", "axes"},
     1,
     {},
     {{{"starts", 1, 10}, {"ends", 2, 10}, {"axes", 3, 10}, {"steps", 4, 10}}}},
    {"Gather", 2, 2, means<op::Gather>(map_gather, "constant indices"), {"axis"}, 1},
    {"Expand",
     2,
     2,
     means<op::Expand, op::Where>(map_expand, "a constant shape, but for an axis 0 that follows that of an input"),
     {},
     8},
    {"Tile", 2, 2, means<op::Tile>(map_tile, "constant repeats"), {}, 6},
    {"Pad",
     1,
     4,
     means<op::Pad>(map_pad, "constant pads, axes and value"),
     {"mode", "pads", "paddings", "value"},
     1,
     {},
     {{{"pads", 1, 11}, {"value", 2, 11}, {"axes", 3, 18}}}},
    {"Where", 3, 3, means<op::Where, op::Choice>(map_where), {}, 9},
    {"Split",
     1,
     2,
     means<op::Slice>(map_split, "extents of the parts known when loading; one Slice for every part"),
     {"axis", "split", "num_outputs"},
     2,
     {},
     {{{"split", 1, 13}}}},
}};

}  // namespace

std::span<const Rule> selection_rules() {
  return rules;
}

}  // namespace driftbound::onnx
