#include "model/composites/body.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "driftbound/model/composite.hpp"
#include "model/shapes.hpp"

namespace driftbound::composites {

Body::Body(std::span<const Shape> inputs) {
  for (const Shape& shape : inputs) {
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : shape) declared.push_back({extent, ""});
    graph_.add_input("input/" + std::to_string(graph_.inputs.size()), ElementType::f64, std::move(declared));
    shapes_.push_back(shape);
  }
}

ValueId Body::number(double value) {
  return constant(Tensor<double>({}, {value}));
}

ValueId Body::constant(Tensor<double> values) {
  shapes_.push_back(values.shape);
  return graph_.add_constant("constant/" + std::to_string(graph_.values.size()), StoredTensor::from(values));
}

ValueId Body::apply(Op op, std::vector<ValueId> inputs, std::size_t choice) {
  std::vector<Shape> shapes;
  for (const ValueId id : inputs) shapes.push_back(shape(id));
  if (is_composite(op)) {
    const std::vector<Graph> bodies =
        choice == 0 ? std::vector<Graph>{composite_body(op, shapes)} : composite_bodies(op, shapes);
    return apply(bodies[std::min(choice, bodies.size() - 1)], inputs);
  }
  shapes_.push_back(output_shape(op, shapes));
  const ValueId result =
      graph_.add_node("node/" + std::to_string(graph_.nodes.size()), std::move(op), std::move(inputs));
  graph_.values[result].type = ElementType::f64;  // numbers like all others here, also where they are truths or places
  return result;
}

ValueId Body::apply(const Graph& steps, const std::vector<ValueId>& inputs, std::size_t choice) {
  std::vector<ValueId> placed(steps.values.size());
  for (std::size_t slot = 0; slot < inputs.size(); ++slot) placed[steps.inputs[slot]] = inputs[slot];
  for (ValueId id = 0; id < steps.values.size(); ++id) {
    if (steps.is_constant(id)) placed[id] = constant(steps.value(id).constant.to_double());
  }
  for (const Node& node : steps.nodes) {
    std::vector<ValueId> operands;
    for (const ValueId id : node.inputs) operands.push_back(placed[id]);
    placed[node.output] = apply(node.op, std::move(operands), choice);
  }
  return placed[steps.outputs.front()];
}

ValueId Body::mean(ValueId x, const std::vector<std::int64_t>& axes, bool is_moment) {
  const ValueId sum = apply(op::ReduceSum{axes, true, is_moment}, {x});
  const std::int64_t results = element_count(shape(sum));
  const std::int64_t terms = results == 0 ? 1 : element_count(shape(x)) / results;
  return divide(sum, number(static_cast<double>(terms)));
}

Graph Body::finish(ValueId output) {
  if (graph_.nodes.empty() || graph_.nodes.back().output != output) output = apply(op::Identity{}, {output});
  graph_.outputs = {output};
  return std::move(graph_);
}

std::vector<std::int64_t> axes_from(std::size_t first, std::size_t rank) {
  std::vector<std::int64_t> axes(rank > first ? rank - first : 0);
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(first));
  return axes;
}

}  // namespace driftbound::composites
