#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "driftbound/model/op_groups.hpp"
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
void draw_into(Draw& draw, std::vector<bool>& values) {
  values.resize(draw.pick(65));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = draw.flag();
}
void draw_into(Draw& draw, ElementType& type) {
  type = draw.type();
}
void draw_into(Draw& draw, op::Pad::Mode& mode) {
  mode = static_cast<op::Pad::Mode>(draw.pick(4));
}
void draw_into(Draw& draw, op::GridSample::Mode& mode) {
  mode = static_cast<op::GridSample::Mode>(draw.pick(3));
}
void draw_into(Draw& draw, op::GridSample::Outside& outside) {
  outside = static_cast<op::GridSample::Outside>(draw.pick(3));
}
void draw_into(Draw& draw, op::TopK::Result& result) {
  result = static_cast<op::TopK::Result>(draw.pick(2));
}
void draw_into(Draw& draw, op::Windows::Outside& outside) {
  outside = static_cast<op::Windows::Outside>(draw.pick(2));
}
void draw_into(Draw& draw, std::string& equation) {
  constexpr std::array<const char*, 6> usual = {"ij,jk->ik", "bij,bjk->bik", "ij->ji",
                                                "i,i",       "ij,ij",        "bhid,bhjd->bhij"};
  if (draw.flag()) {
    equation = usual[draw.pick(usual.size())];
    return;
  }
  constexpr std::string_view letters = "ijkb,->. ";
  for (std::size_t i = 0, count = draw.pick(16); i < count; ++i) equation += letters[draw.pick(letters.size())];
}
void draw_into(Draw& draw, op::WindowGeometry& geometry) {
  for (auto* list :
       {&geometry.kernel, &geometry.strides, &geometry.dilations, &geometry.pads_before, &geometry.pads_after}) {
    if (draw.flag()) *list = draw.integers(4);
  }
  geometry.auto_pad = static_cast<op::WindowGeometry::AutoPad>(draw.pick(4));
  geometry.ceil_mode = draw.flag();
}

/// Fields by their names, whichever of them the op has.
#define DRIFTBOUND_DRAW(field) \
  if constexpr (requires { op.field; }) draw_into(draw, op.field)
template <class T>
void draw_fields(Draw& draw, T& op) {
  DRIFTBOUND_DRAW(alpha);
  DRIFTBOUND_DRAW(beta);
  DRIFTBOUND_DRAW(gamma);
  DRIFTBOUND_DRAW(transpose_a);
  DRIFTBOUND_DRAW(transpose_b);
  DRIFTBOUND_DRAW(axis);
  DRIFTBOUND_DRAW(all_trailing_axes);
  DRIFTBOUND_DRAW(axes);
  DRIFTBOUND_DRAW(keep_axes);
  DRIFTBOUND_DRAW(target);
  DRIFTBOUND_DRAW(allow_zero);
  DRIFTBOUND_DRAW(permutation);
  DRIFTBOUND_DRAW(to);
  DRIFTBOUND_DRAW(exponent);
  DRIFTBOUND_DRAW(least);
  DRIFTBOUND_DRAW(most);
  DRIFTBOUND_DRAW(starts);
  DRIFTBOUND_DRAW(ends);
  DRIFTBOUND_DRAW(steps);
  DRIFTBOUND_DRAW(indices_shape);
  DRIFTBOUND_DRAW(indices);
  DRIFTBOUND_DRAW(repeats);
  DRIFTBOUND_DRAW(mode);
  DRIFTBOUND_DRAW(align_corners);
  DRIFTBOUND_DRAW(count);
  DRIFTBOUND_DRAW(keep_axis);
  DRIFTBOUND_DRAW(last);
  DRIFTBOUND_DRAW(smallest);
  DRIFTBOUND_DRAW(before);
  DRIFTBOUND_DRAW(after);
  DRIFTBOUND_DRAW(value);
  DRIFTBOUND_DRAW(condition_shape);
  DRIFTBOUND_DRAW(condition);
  DRIFTBOUND_DRAW(geometry);
  DRIFTBOUND_DRAW(outside);
  DRIFTBOUND_DRAW(tanh_form);
  DRIFTBOUND_DRAW(epsilon);
  DRIFTBOUND_DRAW(groups);
  DRIFTBOUND_DRAW(scales_groups);
  DRIFTBOUND_DRAW(p);
  DRIFTBOUND_DRAW(output_padding);
  DRIFTBOUND_DRAW(output_shape);
  DRIFTBOUND_DRAW(counts_padding);
  DRIFTBOUND_DRAW(is_causal);
  DRIFTBOUND_DRAW(scale);
  DRIFTBOUND_DRAW(softcap);
  DRIFTBOUND_DRAW(query_heads);
  DRIFTBOUND_DRAW(key_heads);
  DRIFTBOUND_DRAW(interleaved);
  DRIFTBOUND_DRAW(heads);
  DRIFTBOUND_DRAW(rotary_size);
  DRIFTBOUND_DRAW(equation);
  if constexpr (std::same_as<T, op::TopK>) draw_into(draw, op.result);
}
#undef DRIFTBOUND_DRAW

/// Shapes of a first operand and of those that go with it, so that not every drawn node is refused at once.
using Operands = std::vector<Shape>;

Shape drawn_extents(Draw& draw, std::size_t rank) {
  Shape shape(rank);
  for (std::int64_t& extent : shape) extent = 1 + static_cast<std::int64_t>(draw.pick(6));
  return shape;
}

/// A channel, or a filter's element, of x [N, C, D...].
template <class T>
Operands fitting_operands(const T& op, Draw& draw) {
  const Shape x = drawn_extents(draw, OneOf<T, op::Conv, op::ConvTranspose> ? 3 + draw.pick(3) : 2 + draw.pick(4));
  const Shape channels = {x[1]}, last = {x.back()};
  if constexpr (std::same_as<T, op::BatchNormalization>) return {x, channels, channels, channels, channels};
  if constexpr (std::same_as<T, op::InstanceNormalization>) return {x, channels, channels};
  if constexpr (std::same_as<T, op::GroupNormalization>)
    return {x, op.scales_groups ? Shape{op.groups} : channels, op.scales_groups ? Shape{op.groups} : channels};
  if constexpr (std::same_as<T, op::LayerNormalization>) return {x, last, last};
  if constexpr (std::same_as<T, op::RMSNormalization>) return {x, last};
  if constexpr (std::same_as<T, op::GridSample>) return {drawn_extents(draw, 4), {1, 2, 3, 2}};
  if constexpr (OneOf<T, op::Gemm, op::MatMul>) return {x, {x.back(), 3}};
  if constexpr (OneOf<T, op::Conv, op::ConvTranspose>) {
    Shape filter = drawn_extents(draw, x.size());
    (std::same_as<T, op::Conv> ? filter[1] : filter[0]) = x[1];
    return {x, filter};
  }
  if constexpr (std::same_as<T, op::Attention>) return {x, x, x};
  if constexpr (std::same_as<T, op::RotaryEmbedding>)
    return {x, {x[x.size() - 2], x.back()}, {x[x.size() - 2], x.back()}};
  if constexpr (ElementwiseBinary<T> || OneOf<T, op::Where>) return {x, x};
  if constexpr (std::same_as<T, op::Choice>) return {x, x, x};
  if constexpr (OneOf<T, op::Concat, op::SumOf, op::MeanOf, op::MinOf, op::MaxOf, op::Einsum>)
    return Operands(1 + draw.pick(3), x);
  return {x};
}

struct DrawnNode {
  Op op;
  Operands operands;  ///< empty: whatever there is
};

template <class T>
DrawnNode drawn(Draw& draw) {
  T op;
  const std::size_t choice = draw.byte();
  if (choice % 4 != 0) draw_fields(draw, op);
  Operands operands;
  if (choice >= 128) operands = fitting_operands(op, draw);
  return {op, std::move(operands)};
}

template <std::size_t... index>
DrawnNode drawn_node(Draw& draw, std::index_sequence<index...>) {
  constexpr std::array<DrawnNode (*)(Draw&), sizeof...(index)> all = {
      &drawn<std::variant_alternative_t<index, OpAlternatives>>...};
  return all[draw.pick(all.size())](draw);
}

void add_input(Graph& graph, const std::string& name, ElementType type, const Shape& shape) {
  std::vector<DeclaredDimension> declared;
  for (const std::int64_t extent : shape) declared.push_back({extent, ""});
  graph.add_input(name, type, std::move(declared));
}

void add_inputs(Graph& graph, Draw& draw) {
  for (std::size_t i = 0, count = 1 + draw.pick(3); i < count; ++i) {
    const Shape shape = draw.integers(5);
    add_input(graph, "x" + std::to_string(i), draw.flag() ? ElementType::f32 : draw.type(), shape);
    graph.values.back().has_declared_shape = draw.byte() != 255;
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

std::vector<ValueId> inputs_for(Graph& graph, Draw& draw, const std::string& node, const Operands& operands) {
  std::vector<ValueId> inputs;
  for (const Shape& shape : operands) {
    add_input(graph, node + "/" + std::to_string(inputs.size()), ElementType::f32, shape);
    inputs.push_back(graph.inputs.back());
  }
  if (!inputs.empty()) return inputs;
  inputs.resize(1 + draw.pick(5));
  for (ValueId& input : inputs) input = draw.pick(graph.values.size());
  return inputs;
}

void add_nodes(Graph& graph, Draw& draw) {
  for (std::size_t i = 0; i < most_nodes && !draw.is_empty(); ++i) {
    const std::string name = "n" + std::to_string(i);
    DrawnNode node = drawn_node(draw, std::make_index_sequence<std::variant_size_v<OpAlternatives>>());
    std::vector<ValueId> inputs = inputs_for(graph, draw, name, node.operands);
    try {
      graph.add_node(name, std::move(node.op), std::move(inputs));
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
