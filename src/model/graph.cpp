#include "driftbound/model/graph.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/shapes.hpp"
#include "model/variant.hpp"

namespace driftbound {
namespace {

constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

struct Arity {
  std::size_t least = 1;
  std::size_t most = 1;
};

Arity arity(const Op& op) {
  return std::visit(
      Overloaded{
          [](const op::Gemm&) {
            return Arity{2, 3};
          },
          [](const op::MatMul&) {
            return Arity{2, 2};
          },
          [](const ElementwiseBinary auto&) {
            return Arity{2, 2};
          },
          [](const op::Choice&) {
            return Arity{3, 3};
          },
          [](const ElementwiseUnary auto&) { return Arity{}; },
          [](const op::Softmax&) { return Arity{}; },
          [](const op::Concat&) {
            return Arity{1, any_number};
          },
          [](const OneOf<op::Reshape, op::Flatten, op::Squeeze, op::Unsqueeze, op::Transpose, op::Identity, op::Slice,
                         op::Gather, op::Expand, op::Tile, op::Pad, op::Windows> auto&) { return Arity{}; },
          [](const op::Where&) {
            return Arity{2, 2};
          },
          [](const Reduction auto&) { return Arity{}; },
          [](const CompositeReduction auto&) { return Arity{}; },
          [](const CompositeFunction auto&) { return Arity{}; },
          [](const OneOf<op::LogSoftmax, op::LpNormalization, op::MaxPool, op::AveragePool, op::GlobalAveragePool,
                         op::GlobalMaxPool, op::ArgMax, op::TopK> auto&) { return Arity{}; },
          [](const OneOf<op::SumOf, op::MeanOf, op::MinOf, op::MaxOf, op::Einsum, op::Segment> auto&) {
            return Arity{1, any_number};
          },
          [](const op::MaskedSoftmax&) {
            return Arity{1, 2};
          },
          [](const op::BatchNormalization&) {
            return Arity{5, 5};
          },
          [](const OneOf<op::InstanceNormalization, op::GroupNormalization, op::RotaryEmbedding> auto&) {
            return Arity{3, 3};
          },
          [](const OneOf<op::LayerNormalization, op::Conv, op::ConvTranspose> auto&) {
            return Arity{2, 3};
          },
          [](const OneOf<op::RMSNormalization, op::GridSample> auto&) {
            return Arity{2, 2};
          },
          [](const op::Attention&) {
            return Arity{3, 4};
          },
      },
      op);
}

std::string to_string(const Arity& arity) {
  if (arity.least == arity.most) return std::to_string(arity.least);
  if (arity.most == any_number) return fmt::format("{} or more", arity.least);
  return fmt::format("{} to {}", arity.least, arity.most);
}

void check_arity(const std::string& node, const Op& op, std::size_t inputs) {
  const Arity allowed = arity(op);
  if (inputs >= allowed.least && inputs <= allowed.most) return;
  throw InvalidArgument(
      fmt::format("node '{}' ({}) has {} inputs, the op takes {}", node, name_of(op), inputs, to_string(allowed)));
}

/// No number above the one and below the other: nothing but an infinite one, or none, would be left.
void check_limits(const std::string& node, const Op& op) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto* clip = std::get_if<op::Clip>(&op);
  if (clip == nullptr || (clip->least < infinity && clip->most > -infinity)) return;
  throw InvalidArgument(
      fmt::format("node '{}' (Clip) has the limits {} and {}, which leave no number; leave out the one "
                  "that does not limit",
                  node, clip->least, clip->most));
}

/// The smallest float type that holds every number of both.
ElementType wider(ElementType a, ElementType b) {
  if (a == b) return a;
  return a == ElementType::f64 || b == ElementType::f64 ? ElementType::f64 : ElementType::f32;
}

/// The widest float type of the values; empty where none is a float.
std::optional<ElementType> widest_float(const std::vector<ElementType>& types) {
  std::optional<ElementType> widest;
  for (const ElementType type : types) {
    if (is_float(type)) widest = widest ? wider(*widest, type) : type;
  }
  return widest;
}

/// The widest float type of the values that are moved to the output; else the first one's type.
ElementType moved_type(const std::vector<ElementType>& types) {
  return widest_float(types).value_or(types.front());
}

bool is_comparison(const Op& op) {
  return std::visit([]<class T>(const T&) { return Comparison<T>; }, op);
}

bool are_truths(const std::vector<ElementType>& types) {
  return std::all_of(types.begin(), types.end(), [](ElementType type) { return type == ElementType::boolean; });
}

/// Integers wrap and divide with truncation: only moving them is the same over the reals. Truth values are 0 and 1.
ElementType output_type(const std::string& node, const Op& op, const std::vector<ElementType>& inputs) {
  if (const auto* cast = std::get_if<op::Cast>(&op)) {
    if (is_float(cast->to)) return cast->to;
    throw Unsupported(
        fmt::format("node '{}' (Cast) casts to {}, which is not the identity over the reals", node, name_of(cast->to)));
  }
  if (is_selection(op)) return moved_type(inputs);
  if (const auto* truncate = std::get_if<op::Truncate>(&op)) {
    if (truncate->to == ElementType::i64 || truncate->to == ElementType::i32) return truncate->to;
    throw Unsupported(fmt::format("node '{}' (Truncate) makes {} of numbers; there are int32 and int64", node,
                                  name_of(truncate->to)));
  }
  const auto* largest = std::get_if<op::TopK>(&op);
  if (std::holds_alternative<op::ArgMax>(op) || (largest && largest->result == op::TopK::Result::indices))
    return ElementType::i64;
  if (std::holds_alternative<op::Choice>(op)) return moved_type({inputs.begin() + 1, inputs.end()});
  const std::optional<ElementType> widest = widest_float(inputs);
  if (is_comparison(op) && (widest || are_truths(inputs))) return ElementType::boolean;
  if (widest) return *widest;
  throw Unsupported(fmt::format(
      "node '{}' ({}) computes in {}, which is not arithmetic over the reals; cast its inputs to a float type", node,
      name_of(op), name_of(inputs.front())));
}

[[noreturn]] void invalid_node(const Node& node, const std::string& what) {
  throw InvalidArgument(fmt::format("node '{}' ({}) {}", node.name, name_of(node.op), what));
}

void check_names(const Graph& graph) {
  std::set<std::string> layers;
  for (const Node& node : graph.nodes) {
    if (!layers.insert(node.name).second)
      invalid_node(node, "has the name of an earlier node; layer names must be unique");
  }
  std::set<std::string> inputs;
  for (const ValueId input : graph.inputs) {
    if (!inputs.insert(graph.values[input].name).second) {
      throw InvalidArgument(fmt::format("two graph inputs are named '{}'", graph.values[input].name));
    }
  }
}

void check_order(const Graph& graph, std::vector<bool> known) {
  for (const Node& node : graph.nodes) {
    check_arity(node.name, node.op, node.inputs.size());
    check_limits(node.name, node.op);
    for (const ValueId input : node.inputs) {
      if (input >= known.size()) invalid_node(node, fmt::format("reads value {}, which does not exist", input));
      if (!known[input]) invalid_node(node, fmt::format("reads '{}' before it is computed", graph.values[input].name));
    }
    if (node.output >= known.size() || graph.values[node.output].kind != ValueKind::computed || known[node.output]) {
      invalid_node(node, "must compute a value that nothing else provides");
    }
    known[node.output] = true;
  }
  for (const ValueId output : graph.outputs) {
    if (output >= known.size() || !known[output]) {
      throw InvalidArgument(fmt::format("graph output {} is a value that nothing computes", output));
    }
  }
}

}  // namespace

ValueId Graph::add_input(std::string input_name, ElementType type, std::vector<DeclaredDimension> shape) {
  Value added;
  added.name = std::move(input_name);
  added.kind = ValueKind::input;
  added.type = type;
  added.declared = std::move(shape);
  added.has_declared_shape = true;
  values.push_back(std::move(added));
  inputs.push_back(values.size() - 1);
  return values.size() - 1;
}

ValueId Graph::add_constant(std::string constant_name, StoredTensor tensor) {
  Value added;
  added.name = std::move(constant_name);
  added.kind = ValueKind::constant;
  added.type = tensor.type();
  added.constant = std::move(tensor);
  values.push_back(std::move(added));
  return values.size() - 1;
}

ValueId Graph::add_node(std::string node_name, Op op, std::vector<ValueId> node_inputs) {
  check_arity(node_name, op, node_inputs.size());
  check_limits(node_name, op);
  std::vector<ElementType> types;
  for (const ValueId input : node_inputs) {
    if (input >= values.size()) {
      throw InvalidArgument(
          fmt::format("node '{}' ({}) reads value {}, which does not exist yet", node_name, name_of(op), input));
    }
    types.push_back(values[input].type);
  }
  Value added;
  added.name = node_name;
  added.type = output_type(node_name, op, types);
  values.push_back(std::move(added));
  nodes.push_back(Node{std::move(node_name), std::move(op), std::move(node_inputs), values.size() - 1});
  return values.size() - 1;
}

std::optional<std::size_t> Graph::producer(ValueId id) const {
  const auto found = std::find_if(nodes.begin(), nodes.end(), [id](const Node& node) { return node.output == id; });
  if (found == nodes.end()) return std::nullopt;
  return static_cast<std::size_t>(found - nodes.begin());
}

std::int64_t Graph::parameter_count() const {
  std::int64_t count = 0;
  for (const Value& value : values) {
    if (value.kind == ValueKind::constant && is_float(value.type))
      count += static_cast<std::int64_t>(value.constant.size());
  }
  return count;
}

ElementType Graph::working_type() const {
  std::vector<ElementType> types;
  for (const Value& value : values) {
    if (value.kind != ValueKind::computed) types.push_back(value.type);
  }
  return widest_float(types).value_or(ElementType::f32);
}

void validate(const Graph& graph) {
  std::vector<bool> known(graph.values.size());
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = graph.values[i].kind == ValueKind::constant;
  for (const ValueId input : graph.inputs) {
    if (input >= known.size() || graph.values[input].kind != ValueKind::input) {
      throw InvalidArgument(fmt::format("graph input {} is no input value", input));
    }
    known[input] = true;
  }
  check_names(graph);
  check_order(graph, std::move(known));
}

std::vector<bool> depends_on_input(const Graph& graph) {
  std::vector<bool> depends(graph.values.size(), false);
  for (const ValueId input : graph.inputs) depends.at(input) = true;
  for (const Node& node : graph.nodes) {
    depends.at(node.output) =
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return depends.at(id); });
  }
  return depends;
}

namespace {

/// Elements that each result of a reduction joins.
std::int64_t reduced_count(const std::vector<std::int64_t>& axes, const Shape& shape) {
  const std::vector<bool> reduced = reduced_axes(axes, shape.size());
  Shape extents;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (reduced[axis]) extents.push_back(shape[axis]);
  }
  return element_count(extents);
}

/// Of the sums in a composite's body.
std::int64_t longest_sum(const Node& node, const std::vector<Shape>& shapes) {
  std::vector<Shape> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(shapes.at(id));
  const Graph body = composite_body(node.op, inputs);
  const std::vector<Shape> inner = infer_shapes(body, inputs);
  std::int64_t longest = 0;
  for (const Node& part : body.nodes) longest = std::max(longest, fan_in(body, part, inner));
  return longest;
}

}  // namespace

std::int64_t fan_in(const Graph&, const Node& node, const std::vector<Shape>& shapes) {
  const auto shape = [&](std::size_t slot) -> const Shape& { return shapes.at(node.inputs.at(slot)); };
  using Length = std::int64_t;
  return std::visit(
      Overloaded{
          [&](const OneOf<op::Gemm, op::MatMul> auto& product) -> Length {
            return product_extents(product, shape(0), shape(1)).k;
          },
          [&](const op::Softmax& softmax) -> Length { return plan_reduction(softmax, shape(0)).length; },
          [](const ElementwiseBinary auto&) -> Length { return 0; },
          [](const ElementwiseUnary auto&) -> Length { return 0; },
          [](const op::Choice&) -> Length { return 0; },
          [](const Selection auto&) -> Length { return 0; },
          [&](const Reduction auto& reduction) -> Length { return reduced_count(reduction.axes, shape(0)); },
          [&](const Composite auto&) -> Length { return longest_sum(node, shapes); },
      },
      node.op);
}

}  // namespace driftbound
