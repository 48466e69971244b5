#include <doctest/doctest.h>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "evaluate/every_op.hpp"
#include "program/flatten.hpp"

namespace driftbound::tests {
namespace {

/// Values of all nodes, the operands taken as they are.
std::vector<Tensor<double>> evaluated(const Graph& graph, const std::vector<Tensor<double>>& operands) {
  std::vector<Tensor<double>> values(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) values[id] = graph.value(id).constant.to_double();
  }
  return scalar::evaluate_once<double>(graph, std::move(values), inputs_of(operands));
}

std::vector<Shape> shapes_of(const std::vector<Tensor<double>>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor<double>& tensor : tensors) shapes.push_back(tensor.shape);
  return shapes;
}

/// Steps before and after the op, so that its values lie among others.
Graph surrounded(const OpCase& c) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < c.operands.size(); ++i)
    inputs.push_back(graph.add_input("x" + std::to_string(i), ElementType::f64, dimensions(c.operands[i].shape)));
  inputs[0] = graph.add_node("before", op::Identity{}, {inputs[0]});
  const ValueId y = graph.add_node("op", c.op, inputs);
  graph.outputs = {graph.add_node("after", op::Identity{}, {y}), y};
  return graph;
}

}  // namespace

TEST_CASE("a flat graph has primitives only, and the values of the graph it was made of") {
  std::mt19937_64 random(31);
  int composites = 0;
  for (const OpCase& c : every_op(random)) {
    const Graph graph = surrounded(c);
    const FlatGraph flat = flatten(graph, shapes_of(c.operands));
    CAPTURE(name_of(c.op));
    const std::vector<Tensor<double>> values = evaluated(graph, c.operands);
    const std::vector<Tensor<double>> steps = evaluated(flat.graph, c.operands);
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      const ValueId id = flat.of_value[graph.nodes[node].output];
      const auto producer = flat.graph.producer(id);
      REQUIRE(producer.has_value());
      CHECK(steps[*producer].shape == values[node].shape);
      CHECK(steps[*producer].shape == flat.shapes[id]);
      CHECK(steps[*producer].values == values[node].values);
      CHECK(flat.of_node[*producer] == node);
    }
    REQUIRE(flat.of_node.size() == flat.graph.nodes.size());
    for (std::size_t step = 0; step < flat.graph.nodes.size(); ++step) {
      CHECK(!is_composite(flat.graph.nodes[step].op));
      CHECK(flat.of_node[step] < graph.nodes.size());
      CHECK((step == 0 || flat.of_node[step - 1] <= flat.of_node[step]));
      for (const ValueId input : flat.graph.nodes[step].inputs) CHECK(input < flat.graph.nodes[step].output);
    }
    CHECK(flat.graph.outputs == std::vector{flat.of_value[graph.outputs[0]], flat.of_value[graph.outputs[1]]});
    composites += is_composite(c.op) ? 1 : 0;
  }
  CHECK(composites > 20);
}

}  // namespace driftbound::tests
