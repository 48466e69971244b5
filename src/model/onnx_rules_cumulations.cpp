#include <algorithm>
#include <array>
#include <type_traits>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/shapes.hpp"

// Products along axes, and sums and products of the elements so far.

namespace driftbound::onnx {
namespace {

using Input = MappedOps::Input;

/// One more element behind the others of an axis, or in front of them.
op::Pad one_more(std::size_t axis, std::size_t rank, double value, bool in_front) {
  op::Pad pad;
  pad.before.assign(rank, 0);
  pad.after = pad.before;
  (in_front ? pad.before : pad.after)[axis] = 1;
  pad.value = value;
  return pad;
}

/// The product along an axis of known extent: halves are multiplied until one element is left. That of nothing is 1.
Input product_along(StepWriter& steps, Input x, std::size_t axis, std::size_t rank, std::int64_t extent) {
  const auto named = static_cast<std::int64_t>(axis);
  if (extent == 0) return steps.apply(one_more(axis, rank, 1.0, false), {x});
  while (extent != 1) {
    if (extent % 2 != 0) {
      x = steps.apply(one_more(axis, rank, 1.0, false), {x});
      ++extent;
    }
    extent /= 2;
    const Input first = steps.part(x, named, 0, extent), second = steps.part(x, named, extent, extent);
    x = steps.multiply(first, second);
  }
  return x;
}

/// `axes` is an input since opset 18.
Mapping map_reduce_product(const NodeView& node) {
  const Axes axes = axes_of(node, 18);
  if (!axes.are_known) return computed_axes;
  const bool reduces_nothing = axes.values.empty() && integer_or(node.proto, "noop_with_empty_axes", 0) != 0;
  if (reduces_nothing) return MappedOp{op::Identity{}, {0}};
  const auto rank = rank_of(node, 0);
  if (!rank)
    return NotMapped{"the rank of its input is not known when loading; export the model with fixed input shapes"};
  const std::vector<bool> reduced = reduced_axes(axes.values, *rank);
  StepWriter steps(node);
  Input x = steps.slot(0);
  std::vector<std::int64_t> gone;
  for (std::size_t axis = 0; axis < *rank; ++axis) {
    if (!reduced[axis]) continue;
    const auto extent = extent_along(node, static_cast<std::int64_t>(axis));
    constexpr std::int64_t longest = std::int64_t{1} << 30;
    if (!extent) return NotMapped{"multiplies along an axis whose extent is not known when loading"};
    if (*extent > longest) return NotMapped{"multiplies along an axis of more than 2^30 elements"};
    x = product_along(steps, x, axis, *rank, *extent);
    gone.push_back(static_cast<std::int64_t>(axis));
  }
  const bool keeps_axes = integer_or(node.proto, "keepdims", 1) != 0 || gone.empty();
  if (keeps_axes && x.source == MappedOps::Source::slot) return MappedOp{op::Identity{}, {0}};
  return steps.finish(keeps_axes ? x : steps.apply(op::Squeeze{gone}, {x}));
}

/// An element is combined with what the ones before it gave (`reverse`: behind it), one step an element.
template <class Operation>
Mapping map_cumulation(const NodeView& node) {
  constexpr bool adds = std::is_same_v<Operation, op::Add>;
  if (is_given(node, 1) && node.operands[1].constant == nullptr)
    return NotMapped{"its axis is computed, not a constant"};
  const auto given = constant_integers(node, 1);
  if (!given || given->size() != 1) fail("its axis must be one integer");
  const auto rank = rank_of(node, 0);
  if (!rank)
    return NotMapped{"the rank of its input is not known when loading; export the model with fixed input shapes"};
  const std::size_t axis = normalized_axis(given->front(), *rank);
  const auto named = static_cast<std::int64_t>(axis);
  const auto extent = extent_along(node, named);
  constexpr std::int64_t longest = 512;
  if (!extent)
    return NotMapped{"runs along an axis whose extent is not known when loading; export the model with a fixed one"};
  if (*extent < 1 || *extent > longest)
    return NotMapped{"runs along an axis of " + std::to_string(*extent) + " elements; 1 to 512 are supported"};
  const bool is_exclusive = integer_or(node.proto, "exclusive", 0) != 0;
  const bool is_reversed = integer_or(node.proto, "reverse", 0) != 0;

  StepWriter steps(node);
  const auto slice = [&](std::int64_t i) {
    return steps.part(steps.slot(0), named, is_reversed ? *extent - 1 - i : i, 1);
  };
  std::vector<Input> results = {slice(0)};
  for (std::int64_t i = 1; i < *extent - (is_exclusive ? 1 : 0); ++i)
    results.push_back(steps.apply(Operation{}, {results.back(), slice(i)}));
  if (is_exclusive && *extent == 1) {
    const Input neutral = adds ? steps.zero() : steps.number(1.0);
    return steps.finish(steps.apply(op::Where{{}, {true}}, {neutral, results.front()}));
  }
  if (is_reversed) std::reverse(results.begin(), results.end());
  Input all = results.size() == 1 ? results.front() : steps.apply(op::Concat{named}, results);
  if (is_exclusive) all = steps.apply(one_more(axis, *rank, adds ? 0.0 : 1.0, !is_reversed), {all});
  return steps.finish(all);
}

constexpr std::string_view runs = "a constant axis of at most 512 elements, a step for each";

constexpr std::array<Rule, 3> rules = {{
    {"ReduceProd",
     1,
     2,
     composes(map_reduce_product, "constant axes of known extents, halves of which are multiplied"),
     {"axes", "keepdims", "noop_with_empty_axes"},
     1},
    {"CumSum", 2, 2, composes(map_cumulation<op::Add>, runs), {"exclusive", "reverse"}, 11},
    {"CumProd", 2, 2, composes(map_cumulation<op::Mul>, runs), {"exclusive", "reverse"}, 26},
}};

}  // namespace

std::span<const Rule> cumulation_rules() {
  return rules;
}

}  // namespace driftbound::onnx
