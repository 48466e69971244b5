#include "fuzz/small_models.hpp"

#include <array>

namespace driftbound::fuzz {
namespace {

StoredTensor ones(Shape shape) {
  Tensor<float> tensor(std::move(shape));
  for (float& value : tensor.values) value = 1.0f;
  return StoredTensor::from(tensor);
}

Graph dense() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f32, {{-1, "N"}, {3, ""}});
  const ValueId h = graph.add_node("h", op::Gemm{}, {x, graph.add_constant("W", ones({3, 2}))});
  graph.outputs = {graph.add_node("y", op::Relu{}, {h})};
  return graph;
}

Graph two_inputs() {
  Graph graph;
  const ValueId a = graph.add_input("a", ElementType::f32, {{-1, "N"}, {2, ""}});
  const ValueId b = graph.add_input("b/c", ElementType::f64, {{-1, "N"}, {2, ""}});
  graph.outputs = {graph.add_node("y", op::Add{}, {a, b})};
  return graph;
}

Graph integers() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::i16, {{2, ""}, {2, ""}});
  graph.outputs = {graph.add_node("y", op::Cast{ElementType::f32}, {x})};
  return graph;
}

Graph mixed_rows() {
  Graph graph;
  const ValueId x = graph.add_input("x", ElementType::f16, {{2, ""}, {3, ""}});
  const ValueId t = graph.add_node("t", op::Transpose{}, {x});
  graph.outputs = {graph.add_node("y", op::MatMul{}, {x, t})};
  return graph;
}

}  // namespace

const Graph& small_model(std::size_t number) {
  static const std::array<Graph, 4> models = {dense(), two_inputs(), integers(), mixed_rows()};
  return models.at(number);
}

}  // namespace driftbound::fuzz
