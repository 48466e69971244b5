#include "model/shapes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/num/errors.hpp"
#include "model/selections.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

/// Larger values are taken for a damaged file: 2^40 doubles are 8 TiB.
constexpr std::int64_t max_elements = std::int64_t{1} << 40;

std::int64_t product(Shape::const_iterator first, Shape::const_iterator last) {
  return element_count(Shape(first, last));
}

std::set<std::size_t> normalized_axes(const std::vector<std::int64_t>& axes, std::size_t rank) {
  std::set<std::size_t> normalized;
  for (const std::int64_t axis : axes) {
    if (!normalized.insert(normalized_axis(axis, rank)).second) {
      throw ShapeMismatch(fmt::format("axis {} is named twice", axis));
    }
  }
  return normalized;
}

void require_positive_inner_dimension(const ProductExtents& extents, const Shape& a, const Shape& b) {
  if (extents.k == 0) {
    throw ShapeMismatch(
        fmt::format("A {} and B {} have inner dimension 0: a sum without terms", to_string(a), to_string(b)));
  }
}

Shape gemm_shape(const op::Gemm& gemm, std::span<const Shape> inputs) {
  const ProductExtents extents = product_extents(gemm, inputs[0], inputs[1]);
  Shape result = extents.batch;
  result.insert(result.end(), {extents.m, extents.n});
  if (inputs.size() == 3 && !broadcasts_to(inputs[2], result)) {
    throw ShapeMismatch(
        fmt::format("C {} does not broadcast to the product's shape {}", to_string(inputs[2]), to_string(result)));
  }
  return result;
}

Shape matmul_shape(const op::MatMul& matmul, std::span<const Shape> inputs) {
  const ProductExtents extents = product_extents(matmul, inputs[0], inputs[1]);
  Shape result = extents.batch;
  if (inputs[0].size() > 1) result.push_back(extents.m);
  if (inputs[1].size() > 1) result.push_back(extents.n);
  return result;
}

Shape concat_shape(const op::Concat& concat, std::span<const Shape> inputs) {
  Shape result = inputs[0];
  const std::size_t axis = normalized_axis(concat.axis, result.size());
  for (const Shape& input : inputs.subspan(1)) {
    bool fits = input.size() == result.size();
    for (std::size_t i = 0; fits && i < result.size(); ++i) fits = i == axis || input[i] == result[i];
    if (!fits) {
      throw ShapeMismatch(
          fmt::format("{} and {} differ in more than axis {}", to_string(inputs[0]), to_string(input), axis));
    }
    if (input[axis] > max_elements || result[axis] > max_elements) throw ShapeMismatch("extent larger than 2^40");
    result[axis] += input[axis];
  }
  return result;
}

/// The target with its zeros replaced by the input's extents.
Shape copied_extents(const op::Reshape& reshape, const Shape& input) {
  Shape result = reshape.target;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] != 0 || reshape.allow_zero) continue;
    if (i >= input.size()) {
      throw ShapeMismatch(fmt::format("target {} copies axis {}, which the input {} does not have",
                                      to_string(reshape.target), i, to_string(input)));
    }
    result[i] = input[i];
  }
  return result;
}

Shape reshape_shape(const op::Reshape& reshape, const Shape& input) {
  Shape result = copied_extents(reshape, input);
  const auto mismatch = [&] {
    return ShapeMismatch(fmt::format("cannot reshape {} to {}", to_string(input), to_string(reshape.target)));
  };
  const auto is_invalid = [](std::int64_t extent) { return extent < -1; };
  if (std::any_of(result.begin(), result.end(), is_invalid) || std::count(result.begin(), result.end(), -1) > 1) {
    throw mismatch();
  }
  const std::int64_t elements = element_count(input);
  const auto open = std::find(result.begin(), result.end(), -1);
  if (open != result.end()) {
    *open = 1;
    const std::int64_t others = element_count(result);
    if (others == 0 || elements % others != 0) throw mismatch();
    *open = elements / others;
  }
  if (element_count(result) != elements) throw mismatch();
  return result;
}

Shape flatten_shape(const op::Flatten& flatten, const Shape& input) {
  const auto rank = static_cast<std::int64_t>(input.size());
  if (flatten.axis < -rank || flatten.axis > rank) {
    throw ShapeMismatch(
        fmt::format("axis {} is outside [-{}, {}] for the input {}", flatten.axis, rank, rank, to_string(input)));
  }
  const auto split = input.begin() + (flatten.axis < 0 ? flatten.axis + rank : flatten.axis);
  return {product(input.begin(), split), product(split, input.end())};
}

Shape squeeze_shape(const op::Squeeze& squeeze, const Shape& input) {
  const std::set<std::size_t> axes = normalized_axes(squeeze.axes, input.size());
  Shape result;
  for (std::size_t i = 0; i < input.size(); ++i) {
    if (axes.count(i) != 0 && input[i] != 1) {
      throw ShapeMismatch(fmt::format("axis {} of {} is not 1", i, to_string(input)));
    }
    const bool dropped = axes.empty() ? input[i] == 1 : axes.count(i) != 0;
    if (!dropped) result.push_back(input[i]);
  }
  return result;
}

Shape unsqueeze_shape(const op::Unsqueeze& unsqueeze, const Shape& input) {
  const std::size_t rank = input.size() + unsqueeze.axes.size();
  const std::set<std::size_t> axes = normalized_axes(unsqueeze.axes, rank);
  Shape result;
  auto next = input.begin();
  for (std::size_t i = 0; i < rank; ++i) result.push_back(axes.count(i) != 0 ? 1 : *next++);
  return result;
}

Shape transpose_shape(const op::Transpose& transpose, const Shape& input) {
  Shape result;
  for (const std::size_t axis : permutation_of(transpose, input.size())) result.push_back(input[axis]);
  return result;
}

Shape reduced_shape(const std::vector<std::int64_t>& axes, bool keep_axes, const Shape& input) {
  const std::vector<bool> reduced = reduced_axes(axes, input.size());
  Shape result;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    if (!reduced[axis]) result.push_back(input[axis]);
    if (!reduced[axis] || !keep_axes) continue;
    result.push_back(1);
  }
  return result;
}

Shape reduction_shape(const Reduction auto& reduction, const Shape& input) {
  const Shape result = reduced_shape(reduction.axes, reduction.keep_axes, input);
  if (element_count(input) == 0 && element_count(result) != 0) {
    throw ShapeMismatch(fmt::format("{} has nothing to reduce", to_string(input)));
  }
  return result;
}

Shape checked_input_shape(const Value& input, const Shape& shape) {
  element_count(shape);
  bool fits = !input.has_declared_shape || input.declared.size() == shape.size();
  for (std::size_t i = 0; fits && input.has_declared_shape && i < shape.size(); ++i) {
    const std::int64_t declared = input.declared[i].extent;
    const bool counts_samples = i == 0 && declared == 1;  // declared for one sample, given several (batch_layout)
    fits = declared < 0 || declared == shape[i] || counts_samples;
  }
  if (!fits) {
    Shape declared;
    for (const DeclaredDimension& dimension : input.declared) declared.push_back(dimension.extent);
    throw ShapeMismatch(fmt::format("input '{}' has shape {}, the model declares {} (-1: any)", input.name,
                                    to_string(shape), to_string(declared)));
  }
  return shape;
}

std::string listed(std::span<const Shape> shapes) {
  std::string text;
  for (const Shape& shape : shapes) text += (text.empty() ? "" : ", ") + to_string(shape);
  return text;
}

Shape node_shape(const Node& node, std::span<const Shape> inputs) {
  try {
    Shape shape = output_shape(node.op, inputs);
    if (element_count(shape) > max_elements) {
      throw ShapeMismatch(fmt::format("the output {} has more than 2^40 elements", to_string(shape)));
    }
    return shape;
  } catch (const ShapeMismatch& error) {
    throw ShapeMismatch(fmt::format("node '{}' ({}): {}; its inputs are {}", node.name, name_of(node.op), error.what(),
                                    listed(inputs)));
  }
}

}  // namespace

bool broadcasts_to(const Shape& operand, const Shape& result) {
  if (operand.size() > result.size()) return false;
  const auto fits = [](std::int64_t own, std::int64_t wanted) { return own == wanted || own == 1; };
  return std::equal(operand.rbegin(), operand.rend(), result.rbegin(), fits);
}

std::size_t normalized_axis(std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    throw ShapeMismatch(fmt::format("there is no axis {} in rank {}", axis, rank));
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

std::vector<bool> reduced_axes(const std::vector<std::int64_t>& axes, std::size_t rank) {
  std::vector<bool> reduced(rank, axes.empty());
  for (const std::size_t axis : normalized_axes(axes, rank)) reduced[axis] = true;
  return reduced;
}

std::vector<std::size_t> permutation_of(const op::Transpose& transpose, std::size_t rank) {
  std::vector<std::size_t> permutation;
  if (transpose.permutation.empty()) {
    permutation.resize(rank);
    std::iota(permutation.rbegin(), permutation.rend(), std::size_t{0});
    return permutation;
  }
  for (const std::int64_t axis : transpose.permutation) permutation.push_back(normalized_axis(axis, rank));
  if (std::set<std::size_t>(permutation.begin(), permutation.end()).size() != rank || permutation.size() != rank) {
    throw ShapeMismatch(fmt::format("{} is no permutation of {} axes", to_string(transpose.permutation), rank));
  }
  return permutation;
}

ProductExtents product_extents(const op::Gemm& gemm, const Shape& a, const Shape& b) {
  if (a.size() < 2 || b.size() < 2) {
    throw ShapeMismatch(fmt::format("A {} and B {} must be matrices", to_string(a), to_string(b)));
  }
  const auto extent = [](const Shape& shape, bool is_last) { return shape[shape.size() - (is_last ? 1 : 2)]; };
  ProductExtents extents;
  extents.m = extent(a, gemm.transpose_a);
  extents.k = extent(a, !gemm.transpose_a);
  extents.n = extent(b, !gemm.transpose_b);
  if (extents.k != extent(b, gemm.transpose_b)) {
    throw ShapeMismatch(fmt::format("inner dimensions of A {}{} and B {}{} differ", to_string(a),
                                    gemm.transpose_a ? "^T" : "", to_string(b), gemm.transpose_b ? "^T" : ""));
  }
  require_positive_inner_dimension(extents, a, b);
  extents.a_batch.assign(a.begin(), a.end() - 2);
  extents.b_batch.assign(b.begin(), b.end() - 2);
  extents.batch = broadcast(extents.a_batch, extents.b_batch);
  return extents;
}

ProductExtents product_extents(const op::MatMul&, const Shape& a, const Shape& b) {
  if (a.empty() || b.empty()) {
    throw ShapeMismatch(fmt::format("A {} and B {} must not be scalars", to_string(a), to_string(b)));
  }
  ProductExtents extents;
  extents.k = a.back();
  if (a.size() > 1) {
    extents.m = a[a.size() - 2];
    extents.a_batch.assign(a.begin(), a.end() - 2);
  }
  if (b.size() > 1) {
    extents.n = b.back();
    extents.b_batch.assign(b.begin(), b.end() - 2);
  }
  if (extents.k != (b.size() > 1 ? b[b.size() - 2] : b[0])) {
    throw ShapeMismatch(fmt::format("inner dimensions of A {} and B {} differ", to_string(a), to_string(b)));
  }
  require_positive_inner_dimension(extents, a, b);
  extents.batch = broadcast(extents.a_batch, extents.b_batch);
  return extents;
}

Shape output_shape(const Op& op, std::span<const Shape> inputs) {
  return std::visit(Overloaded{
                        [&](const op::Gemm& gemm) { return gemm_shape(gemm, inputs); },
                        [&](const op::MatMul& matmul) { return matmul_shape(matmul, inputs); },
                        [&](const ElementwiseBinary auto&) { return broadcast(inputs[0], inputs[1]); },
                        [&](const ElementwiseUnary auto&) { return inputs[0]; },
                        [&](const op::Choice&) { return broadcast(inputs[0], broadcast(inputs[1], inputs[2])); },
                        [&](const op::Softmax& softmax) {
                          normalized_axis(softmax.axis, inputs[0].size());
                          return inputs[0];
                        },
                        [&](const op::Concat& concat) { return concat_shape(concat, inputs); },
                        [&](const op::Reshape& reshape) { return reshape_shape(reshape, inputs[0]); },
                        [&](const op::Flatten& flatten) { return flatten_shape(flatten, inputs[0]); },
                        [&](const op::Squeeze& squeeze) { return squeeze_shape(squeeze, inputs[0]); },
                        [&](const op::Unsqueeze& unsqueeze) { return unsqueeze_shape(unsqueeze, inputs[0]); },
                        [&](const op::Transpose& transpose) { return transpose_shape(transpose, inputs[0]); },
                        [&](const op::Identity&) { return inputs[0]; },
                        [&](const Reduction auto& reduction) { return reduction_shape(reduction, inputs[0]); },
                        [&](const op::Slice& slice) { return slice_shape(slice, inputs[0]); },
                        [&](const op::Gather& gather) { return gather_shape(gather, inputs[0]); },
                        [&](const op::Expand& expand) { return expand_shape(expand, inputs[0]); },
                        [&](const op::Tile& tile) { return tile_shape(tile, inputs[0]); },
                        [&](const op::Pad& pad) { return pad_shape(pad, inputs[0]); },
                        [&](const op::Where& where) { return where_shape(where, inputs[0], inputs[1]); },
                        [&](const op::Windows& windows) { return windows_shape(windows, inputs[0]); },
                        [&](const Composite auto&) { return composite_shape(op, inputs); },
                    },
                    op);
}

std::vector<Shape> infer_shapes(const Graph& graph, const std::vector<Shape>& input_shapes) {
  if (input_shapes.size() != graph.inputs.size()) {
    throw ShapeMismatch(
        fmt::format("{} input shapes for a graph with {} inputs", input_shapes.size(), graph.inputs.size()));
  }
  std::vector<Shape> shapes(graph.values.size());
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (graph.is_constant(i)) shapes[i] = graph.value(i).constant.shape();
  }
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    shapes.at(graph.inputs[i]) = checked_input_shape(graph.value(graph.inputs[i]), input_shapes[i]);
  }
  for (const Node& node : graph.nodes) {
    std::vector<Shape> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(shapes.at(input));
    shapes.at(node.output) = node_shape(node, inputs);
  }
  return shapes;
}

}  // namespace driftbound
