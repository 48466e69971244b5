#pragma once

#include <random>
#include <string>
#include <vector>

#include "evaluate/small_graphs.hpp"
#include "model/convert.hpp"

namespace driftbound::tests {

inline StoredTensor stored_as(ElementType type, const Tensor<double>& values) {
  return converted(StoredTensor::from(values), type, "test");
}

/// float16 throughout, but for a norm between two Casts, as exporters of half-precision models write it.
inline Graph half_network(std::mt19937_64& random) {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f16, dimensions({open, 24}));
  const auto constant = [&](const char* name, ElementType type, Shape shape) {
    const Tensor<double> values = random_tensor<double>(std::move(shape), random);
    return graph.add_constant(name, stored_as(type, values));
  };
  const ValueId first = graph.add_node(
      "first", op::Gemm{}, {x, constant("w", ElementType::f16, {24, 16}), constant("b", ElementType::f16, {16})});
  const ValueId active = graph.add_node("active", op::Gelu{}, {first});
  const ValueId wide = graph.add_node("wide", op::Cast{ElementType::f32}, {active});
  const ValueId normed =
      graph.add_node("normed", op::LayerNormalization{},
                     {wide, constant("scale", ElementType::f32, {16}), constant("shift", ElementType::f32, {16})});
  const ValueId narrow = graph.add_node("narrow", op::Cast{ElementType::f16}, {normed});
  const ValueId added = graph.add_node("added", op::Add{}, {narrow, active});
  graph.outputs = {graph.add_node("y", op::Softmax{}, {added})};
  return graph;
}

/// The result of one node alone, on operands that a run recorded, in an arithmetic that stores what it computes.
inline Tensor<double> alone(const Graph& graph, const Node& node, const Trace& trace, const ArithmeticModel& plain) {
  Graph one;
  Inputs given;
  std::vector<ValueId> operands;
  for (const ValueId id : node.inputs) {
    const std::string name = "operand" + std::to_string(operands.size());
    if (graph.is_constant(id)) {
      operands.push_back(one.add_constant(name, graph.value(id).constant));
      continue;
    }
    const auto producer = graph.producer(id);
    const StoredTensor recorded = producer ? trace.layers[*producer].output : trace.inputs.at("x");
    operands.push_back(one.add_input(name, recorded.type(), dimensions({open, recorded.shape()[1]})));
    given.tensors.emplace_back(name, recorded);
  }
  one.outputs = {one.add_node(node.name, node.op, operands)};
  return cpu_evaluator(plain).run(one, given).layers.front().output.to_double();
}

inline Inputs half_inputs(std::mt19937_64& random) {
  return inputs({{"x", stored_as(ElementType::f16, random_tensor<double>({9, 24}, random, 3.0))}});
}

}  // namespace driftbound::tests
