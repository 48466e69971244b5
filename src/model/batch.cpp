#include "model/batch.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/selections.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

bool is_symbolic(const DeclaredDimension& dimension) {
  return dimension.extent < 0;
}

void require_open_axis_0_at_most(const Graph& graph, const Value& input) {
  const std::string where = fmt::format("input '{}'{}", input.name, graph.source.empty() ? "" : " of " + graph.source);
  if (!input.has_declared_shape) {
    throw Unsupported(where +
                      " declares no shape; export the model with one (only axis 0, the samples, may stay open)");
  }
  for (std::size_t axis = 1; axis < input.declared.size(); ++axis) {
    if (!is_symbolic(input.declared[axis])) continue;
    throw Unsupported(fmt::format(
        "{} leaves the extent of axis {}{} open; export the model with a fixed extent there "
        "(only axis 0, the samples, may stay open)",
        where, axis, input.declared[axis].symbol.empty() ? "" : " ('" + input.declared[axis].symbol + "')"));
  }
}

/// How many samples stand for "several" where the rules are tried out.
constexpr std::int64_t several_samples = 3;

/// The declared shape with a number in place of an axis 0 that may count samples.
Shape declared_shape(const Value& input, std::int64_t axis_0) {
  Shape shape;
  for (const DeclaredDimension& dimension : input.declared) shape.push_back(dimension.extent);
  if (may_count_samples(input)) shape[0] = axis_0;
  return shape;
}

bool is_full_rank(const BatchOperand& operand, std::size_t rank) {
  return !operand.per_sample || operand.shape.size() == rank;
}

bool are_full_rank(const std::vector<BatchOperand>& operands, std::size_t rank) {
  return std::all_of(operands.begin(), operands.end(),
                     [rank](const BatchOperand& operand) { return is_full_rank(operand, rank); });
}

bool keeps_samples_apart(const op::MatMul&, const std::vector<BatchOperand>& operands, const Shape& result) {
  const BatchOperand& a = operands[0];
  const BatchOperand& b = operands[1];
  const std::size_t dropped = (a.shape.size() == 1 ? 1u : 0u) + (b.shape.size() == 1 ? 1u : 0u);
  const std::size_t rank = result.size() + dropped;
  if (!is_full_rank(a, rank) || !is_full_rank(b, rank)) return false;  // axis 0 of the operand is axis 0 of the result
  return b.per_sample ? rank >= 3 : rank >= 2;                         // … and is not summed over
}

bool keeps_samples_apart(const op::Gemm& gemm, const std::vector<BatchOperand>& operands, const Shape& result) {
  if (operands.size() > 2 && !is_full_rank(operands[2], result.size())) return false;
  const bool has_samples = operands[0].per_sample || operands[1].per_sample;
  if (result.size() > 2) return has_samples && keeps_samples_apart(op::MatMul{}, operands, result);
  return operands[0].per_sample && !gemm.transpose_a && !operands[1].per_sample;
}

bool body_keeps_samples_apart(const Op& op, const std::vector<BatchOperand>& operands, std::int64_t samples);

}  // namespace

bool may_count_samples(const Value& input) {
  return !input.declared.empty() && (is_symbolic(input.declared.front()) || input.declared.front().extent == 1);
}

std::vector<Shape> declared_shapes(const Graph& graph, std::int64_t axis_0) {
  std::vector<Shape> shapes;
  for (const ValueId input : graph.inputs) shapes.push_back(declared_shape(graph.value(input), axis_0));
  return shapes;
}

bool keeps_samples_apart(const Op& op, const std::vector<BatchOperand>& operands, const Shape& result) {
  return std::visit(
      Overloaded{
          [&](const op::Gemm& gemm) { return keeps_samples_apart(gemm, operands, result); },
          [&](const op::MatMul& matmul) { return keeps_samples_apart(matmul, operands, result); },
          [&](const ElementwiseBinary auto&) { return are_full_rank(operands, result.size()); },
          [&](const OneOf<op::Choice, op::Where> auto&) { return are_full_rank(operands, result.size()); },
          [](const ElementwiseUnary auto&) { return true; },
          [&](const op::Softmax& softmax) { return normalized_axis(softmax.axis, result.size()) != 0; },
          [&](const op::Concat& concat) { return normalized_axis(concat.axis, result.size()) != 0; },
          // row-major order: as many rows as before means the same rows
          [](const OneOf<op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze> auto&) { return true; },
          [&](const op::Transpose& transpose) { return permutation_of(transpose, result.size())[0] == 0; },
          [](const op::Identity&) { return true; },
          [&](const Reduction auto& reduction) { return !reduced_axes(reduction.axes, operands[0].shape.size())[0]; },
          [&](const op::Slice& slice) { return keeps_axis(slice, 0, operands[0].shape.size()); },
          [&](const op::Gather& gather) { return normalized_axis(gather.axis, operands[0].shape.size()) != 0; },
          [&](const op::Expand&) {
            return is_full_rank(operands[0], result.size()) && operands[0].shape[0] == result[0];
          },
          [](const op::Tile& tile) { return tile.repeats[0] == 1; },
          [](const op::Pad& pad) { return pad.before[0] == 0 && pad.after[0] == 0; },
          [](const op::Windows&) { return true; },
          [&](const Composite auto&) { return body_keeps_samples_apart(op, operands, result[0]); },
      },
      op);
}

namespace {

bool body_keeps_samples_apart(const Op& op, const std::vector<BatchOperand>& operands, std::int64_t samples) {
  std::vector<Shape> inputs;
  for (const BatchOperand& operand : operands) inputs.push_back(operand.shape);
  const Graph body = composite_body(op, inputs);
  const std::vector<Shape> shapes = infer_shapes(body, inputs);
  std::vector<BatchOperand> values;
  for (const Shape& shape : shapes) values.push_back({shape, false});
  for (std::size_t slot = 0; slot < operands.size(); ++slot) values[body.inputs[slot]] = operands[slot];
  for (const Node& node : body.nodes) {
    std::vector<BatchOperand> used;
    for (const ValueId id : node.inputs) used.push_back(values[id]);
    BatchOperand& result = values[node.output];
    result.per_sample = std::any_of(used.begin(), used.end(), [](const BatchOperand& o) { return o.per_sample; });
    if (!result.per_sample) continue;
    const bool has_rows = !result.shape.empty() && result.shape[0] == samples;
    if (!has_rows || !keeps_samples_apart(node.op, used, result.shape)) return false;
  }
  return true;
}

std::optional<std::vector<Shape>> shapes_for(const Graph& graph, std::int64_t samples) {
  try {
    return infer_shapes(graph, declared_shapes(graph, samples));
  } catch (const ShapeMismatch&) {
    return std::nullopt;
  }
}

/// Whether every value that depends on an input has shape [samples, tail...] with the same tail for every number of
/// samples. Three numbers tell an extent that follows the samples from one that happens to agree with them.
bool axis_0_counts_samples(const Graph& graph, const std::vector<bool>& depends) {
  std::vector<Shape> first;
  for (const std::int64_t samples : {std::int64_t{1}, several_samples, std::int64_t{5}}) {
    std::optional<std::vector<Shape>> shapes = shapes_for(graph, samples);
    if (!shapes) return false;
    for (std::size_t value = 0; value < shapes->size(); ++value) {
      if (!depends[value]) continue;
      Shape& shape = (*shapes)[value];
      if (shape.empty() || shape[0] != samples) return false;
      shape[0] = 1;
    }
    if (first.empty()) first = *shapes;
    if (first != *shapes) return false;
  }
  return true;
}

bool keeps_samples_apart(const Node& node, const std::vector<Shape>& shapes, const std::vector<bool>& depends) {
  std::vector<BatchOperand> operands;
  for (const ValueId input : node.inputs) operands.push_back({shapes[input], depends[input]});
  return keeps_samples_apart(node.op, operands, shapes[node.output]);
}

bool every_node_keeps_samples_apart(const Graph& graph, const std::vector<bool>& depends) {
  const std::vector<Shape> shapes = infer_shapes(graph, declared_shapes(graph, several_samples));
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return !depends[node.output] || keeps_samples_apart(node, shapes, depends);
  });
}

bool is_batched(const Graph& graph) {
  const std::vector<bool> depends = depends_on_input(graph);
  return !graph.inputs.empty() &&
         std::all_of(graph.inputs.begin(), graph.inputs.end(),
                     [&](ValueId id) { return may_count_samples(graph.value(id)); }) &&
         std::all_of(graph.outputs.begin(), graph.outputs.end(), [&](ValueId id) { return depends[id]; }) &&
         axis_0_counts_samples(graph, depends) && every_node_keeps_samples_apart(graph, depends);
}

}  // namespace

BatchLayout batch_layout(const Graph& graph) {
  for (const ValueId input : graph.inputs) require_open_axis_0_at_most(graph, graph.value(input));
  return BatchLayout{is_batched(graph), declared_shapes(graph, 1)};
}

}  // namespace driftbound
