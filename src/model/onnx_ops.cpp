#include "model/onnx_ops.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_sparse.hpp"
#include "model/onnx_tensor.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

constexpr std::size_t any_number = std::numeric_limits<std::size_t>::max();

[[noreturn]] void fail(const std::string& why) {
  throw ParseError(why);
}

std::vector<std::int64_t> checked_rank(std::vector<std::int64_t> axes) {
  if (axes.size() > highest_rank) fail("a list of more than 64 axes");
  return axes;
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
  gemm.alpha = real_or(node.proto, "alpha", 1.0f);
  gemm.beta = real_or(node.proto, "beta", 1.0f);
  gemm.transpose_a = integer_or(node.proto, "transA", 0) != 0;
  gemm.transpose_b = integer_or(node.proto, "transB", 0) != 0;
  return MappedOp{gemm, given_slots(node)};
}

Mapping map_leaky_relu(const NodeView& node) {
  return MappedOp{op::LeakyRelu{real_or(node.proto, "alpha", 0.01f)}, {0}};
}

Mapping map_elu(const NodeView& node) {
  return MappedOp{op::Elu{real_or(node.proto, "alpha", 1.0f)}, {0}};
}

Mapping map_softmax(const NodeView& node) {
  const bool coerces_to_matrix = node.opset < 13;
  return MappedOp{op::Softmax{integer_or(node.proto, "axis", coerces_to_matrix ? 1 : -1), coerces_to_matrix}, {0}};
}

Mapping map_concat(const NodeView& node) {
  return MappedOp{op::Concat{required_integer(node.proto, "axis")}, given_slots(node)};
}

/// A target of which some extents follow the number of samples: one that the input has on the same axis is copied (0),
/// and a single other one is inferred (-1), which is what it must be for the elements to fit. Empty where more are
/// open.
std::optional<std::vector<std::int64_t>> closed_target(const Integers& target, const OpenShape* input,
                                                       bool allow_zero) {
  std::vector<std::int64_t> result;
  std::size_t open = 0;
  for (std::size_t axis = 0; axis < target.size(); ++axis) {
    const Extent extent = target[axis];
    const bool is_copied =
        !allow_zero && input != nullptr && axis < input->size() && certainly_equal((*input)[axis], extent);
    if (extent.is_number()) {
      result.push_back(extent.value());
    } else {
      result.push_back(is_copied ? 0 : -1);
      open += is_copied ? 0 : 1;
    }
  }
  const auto inferred = static_cast<std::size_t>(std::count(result.begin(), result.end(), -1));
  const bool has_zeros = allow_zero && std::count(result.begin(), result.end(), 0) > 0;
  if (open > 0 && (inferred > 1 || has_zeros)) return std::nullopt;
  return result;
}

Mapping map_reshape(const NodeView& node) {
  const bool allow_zero = integer_or(node.proto, "allowzero", 0) != 0;
  if (auto target = constant_integers(node, 1)) return MappedOp{op::Reshape{std::move(*target), allow_zero}, {0}};
  if (node.operands[1].integers == nullptr) return NotMapped{"its target shape is computed, not a constant"};
  const Integers target = *Integers::of(node.operands[1]);
  if (target.shape().size() > 1 || target.size() > highest_rank) fail("input 1 must be a list of integers");
  auto closed = closed_target(target, node.operands[0].shape, allow_zero);
  if (!closed) return NotMapped{"its target shape has more than one extent that is not known when loading"};
  return MappedOp{op::Reshape{std::move(*closed), allow_zero}, {0}};
}

Mapping map_flatten(const NodeView& node) {
  return MappedOp{op::Flatten{integer_or(node.proto, "axis", 1)}, {0}};
}

/// Axes are an attribute before opset 13 and an input from then on.
struct Axes {
  bool are_given = false;
  bool are_known = true;
  std::vector<std::int64_t> values;
};

Axes axes_of(const NodeView& node) {
  const auto attribute = find_integers(node.proto, "axes");
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
  return MappedOp{op::Transpose{checked_rank(find_integers(node.proto, "perm").value_or(std::vector<std::int64_t>{}))},
                  {0}};
}

Mapping map_cast(const NodeView& node) {
  const auto target = static_cast<DataType>(required_integer(node.proto, "to"));
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

/// A tensor with the same element everywhere; float32 zeros where no element is given.
Mapping map_constant_of_shape(const NodeView& node) {
  const auto shape = constant_integers(node, 0);
  if (!shape) return NotMapped{"its shape is computed, not a constant"};
  StoredTensor element = StoredTensor::from(Tensor<float>({}, {0.0f}));
  if (const auto attribute = find_attribute(node.proto, "value", AttributeType::tensor)) {
    if (!attribute->tensor) fail("attribute 'value' holds no tensor");
    element = to_stored(parse_tensor(*attribute->tensor), node.owner, "its value", &node.data_files);
    if (element.size() != 1) fail("attribute 'value' must hold one element");
  }
  const auto count = static_cast<std::size_t>(element_count(*shape));
  const std::size_t width = element.bytes().size();
  if (count > node.allowance.left() / width || !node.allowance.take(count * width))
    return NotMapped{"a tensor of shape " + to_string(*shape) + " is larger than a file of this size justifies"};
  std::vector<std::byte> bytes;
  bytes.reserve(count * width);
  for (std::size_t i = 0; i < count; ++i) bytes.insert(bytes.end(), element.bytes().begin(), element.bytes().end());
  return MappedConstant{StoredTensor(element.type(), *shape, std::move(bytes))};
}

Mapping map_constant(const NodeView& node) {
  if (const auto attribute = find_attribute(node.proto, "value", AttributeType::tensor)) {
    if (!attribute->tensor) fail("attribute 'value' holds no tensor");
    try {
      return MappedConstant{to_stored(parse_tensor(*attribute->tensor), node.owner, "its value", &node.data_files)};
    } catch (const Unsupported& error) {
      return NotMapped{error.what()};
    }
  }
  if (const auto attribute = find_attribute(node.proto, "sparse_value", AttributeType::sparse_tensor)) {
    if (!attribute->sparse_tensor) fail("attribute 'sparse_value' holds no tensor");
    return MappedConstant{to_dense(parse_sparse_tensor(*attribute->sparse_tensor), node.owner, "its value",
                                   node.data_files, node.allowance)};
  }
  if (const auto attribute = find_attribute(node.proto, "value_float", AttributeType::real)) {
    return MappedConstant{StoredTensor::from(Tensor<float>({}, {attribute->real.value_or(0.0f)}))};
  }
  if (const auto attribute = find_attribute(node.proto, "value_floats", AttributeType::reals)) {
    return MappedConstant{to_float_vector(attribute->reals)};
  }
  if (const auto attribute = find_attribute(node.proto, "value_int", AttributeType::integer)) {
    return MappedConstant{integer_tensor({}, {attribute->integer.value_or(0)})};
  }
  if (auto values = find_integers(node.proto, "value_ints")) {
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
  std::array<std::string_view, 6> attributes = {};
};

constexpr std::array<Rule, 30> rules = {{
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
    {"Constant",
     0,
     0,
     map_constant,
     {"value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints"}},
    {"ConstantOfShape", 1, 1, map_constant_of_shape, {"value"}},
}};

std::string why_no_rule(std::string_view op) {
  if (op == "Loop" || op == "Scan") return "loops are not supported; export the model with its loops unrolled";
  return "this version has no such op";
}

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
  if (rule == rules.end()) return NotMapped{why_no_rule(node.proto.op_type)};
  for (const auto& [name, bytes] : node.proto.attributes) {
    const bool is_known = std::find(rule->attributes.begin(), rule->attributes.end(), name) != rule->attributes.end();
    if (!is_known) return NotMapped{"attribute " + in_quotes(name) + " is not supported"};
  }
  check_inputs(node, *rule);
  return rule->map(node);
}

}  // namespace driftbound::onnx
