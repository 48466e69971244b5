#include <utility>

#include "driftbound/model/op_groups.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/shapes.hpp"

namespace driftbound::onnx {
namespace {

constexpr bool keeps_without_axes = true;

/// Sums are 0 over axes without elements: of a zero that is put there.
template <class Reduction>
std::optional<Mapping> map_empty_sum(const NodeView& node, const Reduction& reduction) {
  const auto rank = rank_of(node, 0);
  if (!rank) return std::nullopt;
  const std::vector<bool> reduced = reduced_axes(reduction.axes, *rank);
  op::Pad pad;
  pad.before.assign(*rank, 0);
  pad.after = pad.before;
  for (std::size_t axis = 0; axis < *rank; ++axis)
    pad.after[axis] = reduced[axis] && extent_along(node, static_cast<std::int64_t>(axis)) == 0 ? 1 : 0;
  if (pad.after == pad.before) return std::nullopt;
  MappedOps mapped;
  const MappedOps::Input zeros = mapped.add(std::move(pad), {MappedOps::slot(0)});
  mapped.outputs = {mapped.add(reduction, {zeros})};
  return mapped;
}

/// `axes` is an input since opset 13 for ReduceSum, since opset 18 for the others. Without axes an op reduces all of
/// them, or, where asked, none.
template <class Reduction, std::int64_t input_since, bool is_identity_on_one_element>
Mapping map_reduction(const NodeView& node) {
  const Axes axes = axes_of(node, input_since);
  if (!axes.are_known) return computed_axes;
  const bool keep_axes = integer_or(node.proto, "keepdims", 1) != 0;
  const bool reduces_nothing = axes.values.empty() && integer_or(node.proto, "noop_with_empty_axes", 0) != 0;
  if (!reduces_nothing) {
    const Reduction reduction{axes.values, keep_axes};
    if constexpr (OneOf<Reduction, op::ReduceSum, op::ReduceL1, op::ReduceL2, op::ReduceSumSquare>) {
      if (auto mapped = map_empty_sum(node, reduction)) return std::move(*mapped);
    }
    return MappedOp{reduction, {0}};
  }
  if (is_identity_on_one_element) return MappedOp{op::Identity{}, {0}};
  return NotMapped{"without axes it maps every element, which this version does not do"};
}

template <class Reduction, std::int64_t input_since, bool is_identity_on_one_element>
constexpr Meaning reduces = means<Reduction>(map_reduction<Reduction, input_since, is_identity_on_one_element>,
                                             is_identity_on_one_element
                                                 ? "constant axes"
                                                 : "constant axes; some where noop_with_empty_axes is set");

Mapping map_log_softmax(const NodeView& node) {
  const bool coerces_to_matrix = node.opset < 13;
  return MappedOp{op::LogSoftmax{integer_or(node.proto, "axis", coerces_to_matrix ? 1 : -1), coerces_to_matrix}, {0}};
}

Mapping map_einsum(const NodeView& node) {
  return MappedOp{op::Einsum{std::string(text_or(node.proto, "equation", ""))}, given_slots(node)};
}

constexpr std::array<Rule, 11> rules = {{
    {"ReduceSum",
     1,
     2,
     reduces<op::ReduceSum, 13, keeps_without_axes>,
     {"axes", "keepdims", "noop_with_empty_axes"},
     1},
    {"ReduceMax",
     1,
     2,
     reduces<op::ReduceMax, 18, keeps_without_axes>,
     {"axes", "keepdims", "noop_with_empty_axes"},
     1},
    {"ReduceMin",
     1,
     2,
     reduces<op::ReduceMin, 18, keeps_without_axes>,
     {"axes", "keepdims", "noop_with_empty_axes"},
     1},
    {"ReduceMean",
     1,
     2,
     reduces<op::ReduceMean, 18, keeps_without_axes>,
     {"axes", "keepdims", "noop_with_empty_axes"},
     1},
    {"ReduceL1", 1, 2, reduces<op::ReduceL1, 18, false>, {"axes", "keepdims", "noop_with_empty_axes"}, 1},
    {"ReduceL2", 1, 2, reduces<op::ReduceL2, 18, false>, {"axes", "keepdims", "noop_with_empty_axes"}, 1},
    {"ReduceSumSquare", 1, 2, reduces<op::ReduceSumSquare, 18, false>, {"axes", "keepdims", "noop_with_empty_axes"}, 1},
    {"ReduceLogSum", 1, 2, reduces<op::ReduceLogSum, 18, false>, {"axes", "keepdims", "noop_with_empty_axes"}, 1},
    {"ReduceLogSumExp", 1, 2, reduces<op::ReduceLogSumExp, 18, false>, {"axes", "keepdims", "noop_with_empty_axes"}, 1},
    {"LogSoftmax", 1, 1, means<op::LogSoftmax>(map_log_softmax), {"axis"}, 1},
    {"Einsum", 1, any_number, means<op::Einsum>(map_einsum), {"equation"}, 12},
}};

}  // namespace

std::span<const Rule> reduction_rules() {
  return rules;
}

}  // namespace driftbound::onnx
