#include "model/onnx_ops.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

constexpr std::size_t highest_rank = 64;
constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

[[noreturn]] void fail(const std::string& why) {
  throw ParseError(why);
}

// ---- attributes -----------------------------------------------------------------------------------------------------

/// The attribute if the node has it.
std::optional<AttributeProto> find_attribute(const NodeView& node, std::string_view name, AttributeType type) {
  for (const auto& [found, bytes] : node.proto.attributes) {
    if (found != name) continue;
    AttributeProto attribute = parse_attribute(bytes);
    if (attribute.is_reference)
      fail("attribute " + in_quotes(name) + " refers to a function's attribute outside a function");
    // Files of IR version 1 and 2 may leave the type out.
    if (attribute.type != type && attribute.type != AttributeType::undefined) {
      fail("attribute " + in_quotes(name) + " is not of the type it must be");
    }
    return attribute;
  }
  return std::nullopt;
}

// Zero may be left out by the writer of a file: a missing number is 0.

std::int64_t integer_or(const NodeView& node, std::string_view name, std::int64_t fallback) {
  const auto attribute = find_attribute(node, name, AttributeType::integer);
  return attribute ? attribute->integer.value_or(0) : fallback;
}

double real_or(const NodeView& node, std::string_view name, float fallback) {
  const auto attribute = find_attribute(node, name, AttributeType::real);
  return static_cast<double>(attribute ? attribute->real.value_or(0.0f) : fallback);
}

std::int64_t required_integer(const NodeView& node, std::string_view name) {
  const auto attribute = find_attribute(node, name, AttributeType::integer);
  if (!attribute) fail("attribute " + in_quotes(name) + " is missing");
  return attribute->integer.value_or(0);
}

std::vector<std::int64_t> checked_rank(std::vector<std::int64_t> axes) {
  if (axes.size() > highest_rank) fail("a list of more than 64 axes");
  return axes;
}

std::optional<std::vector<std::int64_t>> find_integers(const NodeView& node, std::string_view name) {
  const auto attribute = find_attribute(node, name, AttributeType::integers);
  if (!attribute) return std::nullopt;
  return to_integers(attribute->integers);
}

// ---- operands -------------------------------------------------------------------------------------------------------

bool is_given(const NodeView& node, std::size_t slot) {
  return slot < node.operands.size() && node.operands[slot].is_given;
}

std::vector<std::size_t> given_slots(const NodeView& node) {
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < node.operands.size(); ++slot) {
    if (is_given(node, slot)) slots.push_back(slot);
  }
  return slots;
}

/// A list of integers that ONNX passes as an input; empty where it is not a constant.
std::optional<std::vector<std::int64_t>> constant_integers(const NodeView& node, std::size_t slot) {
  const StoredTensor* constant = node.operands[slot].constant;
  if (constant == nullptr) return std::nullopt;
  if (is_float(constant->type()) || constant->shape().size() > 1)
    fail("input " + std::to_string(slot) + " must be a list of integers");
  if (constant->size() > highest_rank) fail("a list of more than 64 axes");
  return constant->to_int64().values;
}

// ---- one function per op that needs more than its name --------------------------------------------------------------

template <class T>
Mapping map_plain(const NodeView& node) {
  return MappedOp{T{}, given_slots(node)};
}

Mapping map_gemm(const NodeView& node) {
  op::Gemm gemm;
  gemm.alpha = real_or(node, "alpha", 1.0f);
  gemm.beta = real_or(node, "beta", 1.0f);
  gemm.transpose_a = integer_or(node, "transA", 0) != 0;
  gemm.transpose_b = integer_or(node, "transB", 0) != 0;
  return MappedOp{gemm, given_slots(node)};
}

Mapping map_leaky_relu(const NodeView& node) {
  return MappedOp{op::LeakyRelu{real_or(node, "alpha", 0.01f)}, {0}};
}

Mapping map_elu(const NodeView& node) {
  return MappedOp{op::Elu{real_or(node, "alpha", 1.0f)}, {0}};
}

Mapping map_softmax(const NodeView& node) {
  const bool coerces_to_matrix = node.opset < 13;
  return MappedOp{op::Softmax{integer_or(node, "axis", coerces_to_matrix ? 1 : -1), coerces_to_matrix}, {0}};
}

Mapping map_concat(const NodeView& node) {
  return MappedOp{op::Concat{required_integer(node, "axis")}, given_slots(node)};
}

Mapping map_reshape(const NodeView& node) {
  const auto target = constant_integers(node, 1);
  if (!target) return NotMapped{"its target shape is computed, not a constant"};
  return MappedOp{op::Reshape{*target, integer_or(node, "allowzero", 0) != 0}, {0}};
}

Mapping map_flatten(const NodeView& node) {
  return MappedOp{op::Flatten{integer_or(node, "axis", 1)}, {0}};
}

/// Axes are an attribute before opset 13 and an input from then on.
struct Axes {
  bool are_given = false;
  bool are_known = true;
  std::vector<std::int64_t> values;
};

Axes axes_of(const NodeView& node) {
  const auto attribute = find_integers(node, "axes");
  if (node.opset >= 13 && attribute) fail("attribute 'axes' has been an input since opset 13");
  if (node.opset < 13 && is_given(node, 1)) fail("'axes' is an attribute before opset 13");
  if (attribute) return {true, true, checked_rank(*attribute)};
  if (!is_given(node, 1)) return {};
  const auto input = constant_integers(node, 1);
  return {true, input.has_value(), input.value_or(std::vector<std::int64_t>{})};
}

const NotMapped computed_axes{"its axes are computed, not a constant"};

Mapping map_squeeze(const NodeView& node) {
  const Axes axes = axes_of(node);
  if (!axes.are_known) return computed_axes;
  if (axes.are_given && axes.values.empty())
    return NotMapped{"an empty list of axes means all of them to some runtimes and none to others"};
  return MappedOp{op::Squeeze{axes.values}, {0}};
}

Mapping map_unsqueeze(const NodeView& node) {
  const Axes axes = axes_of(node);
  if (!axes.are_given) fail("its axes are missing");
  if (!axes.are_known) return computed_axes;
  return MappedOp{op::Unsqueeze{axes.values}, {0}};
}

Mapping map_transpose(const NodeView& node) {
  return MappedOp{op::Transpose{checked_rank(find_integers(node, "perm").value_or(std::vector<std::int64_t>{}))}, {0}};
}

Mapping map_cast(const NodeView& node) {
  const auto target = static_cast<DataType>(required_integer(node, "to"));
  const std::optional<ElementType> type = element_type(target);
  if (!type) return NotMapped{"casts to element type " + onnx::name_of(target)};
  return MappedOp{op::Cast{*type}, {0}};
}

/// At inference the identity; opset 12 made training a constant input.
Mapping map_dropout(const NodeView& node) {
  if (is_given(node, 2)) {
    const StoredTensor* training = node.operands[2].constant;
    if (training == nullptr) return NotMapped{"its training mode is computed, not a constant"};
    if (training->size() != 1) fail("training_mode must be one boolean");
    if (training->to_double().values[0] != 0.0)
      return NotMapped{"training mode draws random numbers; export the model for inference"};
  }
  return MappedOp{op::Identity{}, {0}};
}

StoredTensor integer_tensor(Shape shape, std::vector<std::int64_t> values) {
  return StoredTensor::from(Tensor<std::int64_t>(std::move(shape), std::move(values)));
}

Mapping map_constant(const NodeView& node) {
  if (const auto attribute = find_attribute(node, "value", AttributeType::tensor)) {
    if (!attribute->tensor) fail("attribute 'value' holds no tensor");
    try {
      return MappedConstant{to_stored(parse_tensor(*attribute->tensor), node.owner, "its value")};
    } catch (const Unsupported& error) {
      return NotMapped{error.what()};
    }
  }
  if (const auto attribute = find_attribute(node, "value_float", AttributeType::real)) {
    return MappedConstant{StoredTensor::from(Tensor<float>({}, {attribute->real.value_or(0.0f)}))};
  }
  if (const auto attribute = find_attribute(node, "value_floats", AttributeType::reals)) {
    return MappedConstant{to_float_vector(attribute->reals)};
  }
  if (const auto attribute = find_attribute(node, "value_int", AttributeType::integer)) {
    return MappedConstant{integer_tensor({}, {attribute->integer.value_or(0)})};
  }
  if (auto values = find_integers(node, "value_ints")) {
    const auto count = static_cast<std::int64_t>(values->size());
    return MappedConstant{integer_tensor({count}, std::move(*values))};
  }
  fail("its value is missing");
}

// ---- the table ------------------------------------------------------------------------------------------------------

/// An op of ONNX that this version has. What an attribute that is not listed means is not known: a node
/// that has one is not mapped.
struct Rule {
  std::string_view name;
  std::size_t least_inputs, most_inputs;
  Mapping (*map)(const NodeView&);
  std::array<std::string_view, 5> attributes = {};
};

constexpr std::array<Rule, 29> rules = {{
    {"Gemm", 2, 3, map_gemm, {"alpha", "beta", "transA", "transB"}},
    {"MatMul", 2, 2, map_plain<op::MatMul>},
    {"Add", 2, 2, map_plain<op::Add>},
    {"Sub", 2, 2, map_plain<op::Sub>},
    {"Mul", 2, 2, map_plain<op::Mul>},
    {"Div", 2, 2, map_plain<op::Div>},
    {"Neg", 1, 1, map_plain<op::Neg>},
    {"Relu", 1, 1, map_plain<op::Relu>},
    {"LeakyRelu", 1, 1, map_leaky_relu, {"alpha"}},
    {"Elu", 1, 1, map_elu, {"alpha"}},
    {"Tanh", 1, 1, map_plain<op::Tanh>},
    {"Sigmoid", 1, 1, map_plain<op::Sigmoid>},
    {"Softplus", 1, 1, map_plain<op::Softplus>},
    {"Sin", 1, 1, map_plain<op::Sin>},
    {"Cos", 1, 1, map_plain<op::Cos>},
    {"Exp", 1, 1, map_plain<op::Exp>},
    {"Erf", 1, 1, map_plain<op::Erf>},
    {"Sqrt", 1, 1, map_plain<op::Sqrt>},
    {"Softmax", 1, 1, map_softmax, {"axis"}},
    {"Concat", 1, any_number, map_concat, {"axis"}},
    {"Reshape", 2, 2, map_reshape, {"allowzero"}},
    {"Flatten", 1, 1, map_flatten, {"axis"}},
    {"Squeeze", 1, 2, map_squeeze, {"axes"}},
    {"Unsqueeze", 1, 2, map_unsqueeze, {"axes"}},
    {"Transpose", 1, 1, map_transpose, {"perm"}},
    {"Identity", 1, 1, map_plain<op::Identity>},
    {"Cast", 1, 1, map_cast, {"to", "saturate", "round_mode"}},
    {"Dropout", 1, 3, map_dropout, {"ratio", "seed"}},
    {"Constant", 0, 0, map_constant, {"value", "value_float", "value_floats", "value_int", "value_ints"}},
}};

void check_inputs(const NodeView& node, const Rule& rule) {
  const std::size_t given = node.operands.size();
  bool complete = given >= rule.least_inputs && given <= rule.most_inputs;
  const std::size_t required = rule.most_inputs == any_number ? given : rule.least_inputs;
  for (std::size_t slot = 0; complete && slot < required; ++slot) complete = is_given(node, slot);
  if (!complete) fail("wrong number of inputs for the op (" + std::to_string(given) + ")");
}

}  // namespace

Mapping map_node(const NodeView& node) {
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const Rule& r) { return r.name == node.proto.op_type; });
  if (rule == rules.end()) return NotMapped{"this version has no such op"};
  for (const auto& [name, bytes] : node.proto.attributes) {
    const bool is_known = std::find(rule->attributes.begin(), rule->attributes.end(), name) != rule->attributes.end();
    if (!is_known) return NotMapped{"attribute " + in_quotes(name) + " is not supported"};
  }
  check_inputs(node, *rule);
  return rule->map(node);
}

}  // namespace driftbound::onnx
