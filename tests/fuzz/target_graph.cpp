#include <array>
#include <optional>
#include <utility>

#include "driftbound/num/errors.hpp"
#include "fuzz/draw.hpp"
#include "fuzz/study.hpp"

namespace driftbound::fuzz {
namespace {

constexpr std::size_t most_nodes = 12;

void draw_into(Draw& draw, std::int64_t& value) {
  value = draw.integer();
}
void draw_into(Draw& draw, bool& value) {
  value = draw.flag();
}
void draw_into(Draw& draw, double& value) {
  value = static_cast<double>(draw.integer());
}
void draw_into(Draw& draw, std::vector<std::int64_t>& values) {
  values = draw.integers(6);
}
void draw_into(Draw& draw, ElementType& type) {
  type = draw.type();
}

/// Attributes by their names, whichever of them the op has.
template <class T>
Op drawn(Draw& draw) {
  T op;
  if constexpr (requires { op.alpha; }) draw_into(draw, op.alpha);
  if constexpr (requires { op.transpose_a; }) draw_into(draw, op.transpose_a);
  if constexpr (requires { op.transpose_b; }) draw_into(draw, op.transpose_b);
  if constexpr (requires { op.axis; }) draw_into(draw, op.axis);
  if constexpr (requires { op.all_trailing_axes; }) draw_into(draw, op.all_trailing_axes);
  if constexpr (requires { op.axes; }) draw_into(draw, op.axes);
  if constexpr (requires { op.target; }) draw_into(draw, op.target);
  if constexpr (requires { op.allow_zero; }) draw_into(draw, op.allow_zero);
  if constexpr (requires { op.permutation; }) draw_into(draw, op.permutation);
  if constexpr (requires { op.to; }) draw_into(draw, op.to);
  return op;
}

template <std::size_t... index>
Op drawn_op(Draw& draw, std::index_sequence<index...>) {
  constexpr std::array<Op (*)(Draw&), sizeof...(index)> ops = {&drawn<std::variant_alternative_t<index, OpAlternatives>>...};
  return ops[draw.pick(ops.size())](draw);
}

void add_inputs(Graph& graph, Draw& draw) {
  for (std::size_t i = 0, count = 1 + draw.pick(3); i < count; ++i) {
    std::vector<DeclaredDimension> shape;
    for (const std::int64_t extent : draw.integers(5)) shape.push_back({extent, ""});
    const ElementType type = draw.flag() ? ElementType::f32 : draw.type();
    const ValueId id = graph.add_input("x" + std::to_string(i), type, std::move(shape));
    graph.values[id].has_declared_shape = draw.byte() != 255;
  }
}

void add_constants(Graph& graph, Draw& draw) {
  for (std::size_t i = 0, count = draw.pick(4); i < count; ++i) {
    const Shape shape = draw.integers(4);
    const ElementType type = draw.flag() ? ElementType::f32 : draw.type();
    std::vector<std::byte> bytes(draw.pick(65) * bytes_per_element(type));
    try {
      const std::int64_t elements = element_count(shape);
      if (elements <= 64) bytes.resize(static_cast<std::size_t>(elements) * bytes_per_element(type));
      graph.add_constant("c" + std::to_string(i), StoredTensor(type, shape, std::move(bytes)));
    } catch (const ShapeMismatch&) {
    }
  }
}

void add_nodes(Graph& graph, Draw& draw) {
  for (std::size_t i = 0; i < most_nodes && !draw.is_empty(); ++i) {
    Op op = drawn_op(draw, std::make_index_sequence<std::variant_size_v<OpAlternatives>>());
    std::vector<ValueId> inputs(1 + draw.pick(3));
    for (ValueId& input : inputs) input = draw.pick(graph.values.size());
    try {
      graph.add_node("n" + std::to_string(i), std::move(op), std::move(inputs));
    } catch (const Error&) {
    }
  }
}

/// What validate must refuse.
void damage(Graph& graph, Draw& draw) {
  if (graph.nodes.empty()) return;
  Node& node = graph.nodes[draw.pick(graph.nodes.size())];
  const auto anything = static_cast<ValueId>(draw.integer());
  switch (draw.pick(4)) {
    case 0:
      node.output = anything;
      break;
    case 1:
      node.inputs.assign(draw.pick(4), anything);
      break;
    case 2:
      graph.outputs.push_back(anything);
      break;
    default:
      graph.inputs.push_back(anything);
  }
}

}  // namespace

void infer_drawn_graph(Bytes bytes) {
  Draw draw(bytes);
  Graph graph;
  const bool is_damaged = draw.byte() == 255;
  add_inputs(graph, draw);
  add_constants(graph, draw);
  add_nodes(graph, draw);
  graph.outputs.push_back(graph.values.size() - 1);
  if (is_damaged) damage(graph, draw);
  study(graph);
}

}  // namespace driftbound::fuzz
