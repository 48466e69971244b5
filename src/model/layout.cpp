#include "driftbound/model/layout.hpp"

#include <fmt/core.h>

#include <type_traits>

#include "driftbound/num/errors.hpp"
#include "model/selections.hpp"
#include "model/shapes.hpp"
#include "model/strides.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

/// Strides of an operand over the axes of the result it broadcasts to: 0 where it repeats.
std::vector<std::int64_t> broadcast_strides(const Shape& operand, const Shape& result) {
  const std::vector<std::int64_t> own = row_major_strides(operand);
  std::vector<std::int64_t> strides(result.size(), 0);
  const std::size_t missing = result.size() - operand.size();
  for (std::size_t i = 0; i < operand.size(); ++i) strides[missing + i] = operand[i] == 1 ? 0 : own[i];
  return strides;
}

std::vector<std::int64_t> batch_offsets(const Shape& operand, const Shape& result, std::int64_t matrix_elements) {
  const BroadcastIndex index(operand, result);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(result)));
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<std::int64_t>(index(i)) * matrix_elements;
  return offsets;
}

ProductPlan plan_of(const ProductExtents& extents) {
  ProductPlan plan;
  plan.m = extents.m;
  plan.n = extents.n;
  plan.k = extents.k;
  // A result without elements may have any number of batches: none of them is walked over.
  plan.batches = plan.m == 0 || plan.n == 0 ? 0 : element_count(extents.batch);
  if (plan.batches == 0) return plan;
  plan.a_batch = batch_offsets(extents.a_batch, extents.batch, plan.m * plan.k);
  plan.b_batch = batch_offsets(extents.b_batch, extents.batch, plan.k * plan.n);
  return plan;
}

std::vector<ElementSource> in_order(const Shape& output) {
  std::vector<ElementSource> sources(static_cast<std::size_t>(element_count(output)));
  for (std::size_t i = 0; i < sources.size(); ++i) sources[i].index = i;
  return sources;
}

std::vector<ElementSource> permuted(const op::Transpose& transpose, const Shape& input, const Shape& output) {
  const std::vector<std::int64_t> own = row_major_strides(input);
  std::vector<std::int64_t> strides;
  for (const std::size_t axis : permutation_of(transpose, input.size())) strides.push_back(own[axis]);
  std::vector<ElementSource> sources;
  for (const std::size_t offset : strided_offsets(output, strides)) sources.push_back({0, offset});
  return sources;
}

std::vector<ElementSource> concatenated(const op::Concat& concat, const std::vector<Shape>& inputs,
                                        const Shape& output) {
  if (element_count(output) == 0) return {};  // its other extents may be of any size
  const auto axis = static_cast<std::ptrdiff_t>(normalized_axis(concat.axis, output.size()));
  const auto outer = static_cast<std::size_t>(element_count(Shape(output.begin(), output.begin() + axis)));
  std::vector<std::size_t> block;  // consecutive elements of each input between two outer steps
  for (const Shape& input : inputs) {
    block.push_back(static_cast<std::size_t>(element_count(Shape(input.begin() + axis, input.end()))));
  }
  std::vector<ElementSource> sources;
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t slot = 0; slot < inputs.size(); ++slot) {
      for (std::size_t i = 0; i < block[slot]; ++i) sources.push_back({slot, o * block[slot] + i});
    }
  }
  return sources;
}

}  // namespace

BroadcastIndex::BroadcastIndex(const Shape& operand, const Shape& result) : identity_(operand == result) {
  if (identity_) return;
  if (!broadcasts_to(operand, result)) {
    throw ShapeMismatch(fmt::format("{} does not broadcast to {}", to_string(operand), to_string(result)));
  }
  offsets_ = strided_offsets(result, broadcast_strides(operand, result));
}

ProductPlan plan_product(const op::Gemm& gemm, const Shape& a, const Shape& b) {
  ProductPlan plan = plan_of(product_extents(gemm, a, b));
  plan.a_row = gemm.transpose_a ? 1 : plan.k;
  plan.a_col = gemm.transpose_a ? plan.m : 1;
  plan.b_row = gemm.transpose_b ? 1 : plan.n;
  plan.b_col = gemm.transpose_b ? plan.k : 1;
  return plan;
}

ProductPlan plan_product(const op::MatMul& matmul, const Shape& a, const Shape& b) {
  ProductPlan plan = plan_of(product_extents(matmul, a, b));
  plan.a_row = plan.k;
  plan.a_col = 1;
  plan.b_row = plan.n;
  plan.b_col = 1;
  return plan;
}

ReductionPlan plan_reduction(const op::Softmax& softmax, const Shape& shape) {
  const auto axis = static_cast<std::ptrdiff_t>(normalized_axis(softmax.axis, shape.size()));
  const auto end = softmax.all_trailing_axes ? shape.end() : shape.begin() + axis + 1;
  ReductionPlan plan;
  plan.outer = element_count(Shape(shape.begin(), shape.begin() + axis));
  plan.length = element_count(Shape(shape.begin() + axis, end));
  plan.inner = element_count(Shape(end, shape.end()));
  if (plan.length == 0 || plan.inner == 0) plan.outer = 0;  // nothing to walk over
  return plan;
}

GroupPlan plan_groups(const std::vector<std::int64_t>& axes, const Shape& shape) {
  const std::vector<bool> reduced = reduced_axes(axes, shape.size());
  const std::vector<std::int64_t> strides = row_major_strides(shape);
  Shape kept, summed;
  std::vector<std::int64_t> kept_strides, summed_strides;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    (reduced[axis] ? summed : kept).push_back(shape[axis]);
    (reduced[axis] ? summed_strides : kept_strides).push_back(strides[axis]);
  }
  return {strided_offsets(kept, kept_strides), strided_offsets(summed, summed_strides)};
}

GroupPlan plan_groups(const Op& op, const Shape& shape) {
  return std::visit(
      [&](const auto& which) -> GroupPlan {
        if constexpr (Reduction<std::decay_t<decltype(which)>>) {
          return plan_groups(which.axes, shape);
        } else {
          throw InvalidArgument(fmt::format("{} is no reduction", name_of(op)));
        }
      },
      op);
}

double fill_value(const Op& op) {
  const auto* pad = std::get_if<op::Pad>(&op);
  return pad != nullptr ? pad->value : 0.0;
}

bool is_selection(const Op& op) {
  return std::visit(Overloaded{
                        [](const OneOf<op::Gemm, op::MatMul, op::Softmax> auto&) { return false; },
                        [](const Reduction auto&) { return false; },
                        [](const Composite auto&) { return false; },
                        [](const ElementwiseBinary auto&) { return false; },
                        [](const op::Choice&) { return false; },
                        [](const ElementwiseUnary auto&) { return false; },
                        [](const Selection auto&) { return true; },
                    },
                    op);
}

bool keeps_order(const Op& op) {
  return std::visit([]<class T>(const T&) { return Reshaping<T>; }, op);
}

std::vector<ElementSource> plan_selection(const Op& op, const std::vector<Shape>& inputs, const Shape& output) {
  if (!is_selection(op)) throw InvalidArgument(fmt::format("{} is not a selection of elements", name_of(op)));
  if (output_shape(op, inputs) != output) {
    throw ShapeMismatch(fmt::format("{} does not give the shape {}", name_of(op), to_string(output)));
  }
  using Sources = std::vector<ElementSource>;
  return std::visit(Overloaded{
                        [&](const op::Concat& concat) { return concatenated(concat, inputs, output); },
                        [&](const op::Transpose& transpose) { return permuted(transpose, inputs[0], output); },
                        [&](const Reshaping auto&) { return in_order(output); },
                        [&](const op::Slice& slice) { return sliced(slice, inputs[0], output); },
                        [&](const op::Gather& gather) { return gathered(gather, inputs[0]); },
                        [&](const op::Expand&) { return expanded(inputs[0], output); },
                        [&](const op::Tile&) { return tiled(inputs[0], output); },
                        [&](const op::Pad& pad) { return padded(pad, inputs[0], output); },
                        [&](const op::Where& where) { return chosen(where, inputs, output); },
                        [&](const op::Windows& windows) { return windowed(windows, inputs[0]); },
                        [](const OneOf<op::Gemm, op::MatMul, op::Softmax> auto&) { return Sources{}; },
                        [](const Reduction auto&) { return Sources{}; },
                        [](const Composite auto&) { return Sources{}; },
                        [](const ElementwiseBinary auto&) { return Sources{}; },
                        [](const op::Choice&) { return Sources{}; },
                        [](const ElementwiseUnary auto&) { return Sources{}; },
                    },
                    op);
}

}  // namespace driftbound
