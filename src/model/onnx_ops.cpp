#include "model/onnx_ops.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "driftbound/model/onnx_catalogue.hpp"
#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_integers.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_sparse.hpp"
#include "model/onnx_tensor.hpp"
#include "model/shapes.hpp"
#include "model/text.hpp"
#include "model/variant.hpp"

namespace driftbound::onnx {
namespace {

// ---- one function per op that needs more than its name --------------------------------------------------------------

template <class T>
Mapping map_arithmetic(const NodeView& node) {
  MappedOps mapped;
  const MappedOps::Input second = place_second(node, mapped);
  if (mapped.steps.empty()) return map_plain<T>(node);
  mapped.outputs = {mapped.add(T{}, {MappedOps::slot(0), second})};
  return mapped;
}

Mapping map_gemm(const NodeView& node) {
  for (const std::size_t slot : {std::size_t{0}, std::size_t{1}})
    if (rank_of(node, slot).value_or(2) != 2) fail("its operands A and B must be matrices");
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
  const std::int64_t axis = node.opset < 4 ? integer_or(node.proto, "axis", 1) : required_integer(node.proto, "axis");
  return MappedOp{op::Concat{axis}, given_slots(node)};
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
  if (node.opset < 5) {
    auto target = find_integers(node.proto, "shape");
    if (!target) fail("its target shape is missing");
    return MappedOp{op::Reshape{checked_rank(std::move(*target)), false}, {0}};
  }
  if (!is_given(node, 1)) fail("its target shape is missing");
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

Mapping map_squeeze(const NodeView& node) {
  const Axes axes = axes_of(node, 13);
  if (!axes.are_known) return computed_axes;
  if (axes.are_given && axes.values.empty())
    return NotMapped{"an empty list of axes means all of them to some runtimes and none to others"};
  return MappedOp{op::Squeeze{axes.values}, {0}};
}

Mapping map_unsqueeze(const NodeView& node) {
  const Axes axes = axes_of(node, 13);
  if (!axes.are_given) fail("its axes are missing");
  if (!axes.are_known) return computed_axes;
  return MappedOp{op::Unsqueeze{axes.values}, {0}};
}

Mapping map_transpose(const NodeView& node) {
  return MappedOp{op::Transpose{checked_rank(find_integers(node.proto, "perm").value_or(std::vector<std::int64_t>{}))},
                  {0}};
}

/// Computed floats lose what follows the point where the target is an integer type of 32 or 64 bits.
Mapping cast_to(const NodeView& node, ElementType type) {
  const Operand& x = node.operands[0];
  const bool truncates = x.constant == nullptr && x.type && is_float(*x.type);
  if (truncates && (type == ElementType::i64 || type == ElementType::i32)) return MappedOp{op::Truncate{type}, {0}};
  return MappedOp{op::Cast{type}, {0}};
}

/// To the element type of the second input.
Mapping map_cast_like(const NodeView& node) {
  const std::optional<ElementType> type = node.operands[1].type;
  if (!type) return NotMapped{"casts to the element type of an input that is not known"};
  if (*type == ElementType::boolean) return map_truth_of(node);
  return cast_to(node, *type);
}

Mapping map_cast(const NodeView& node) {
  const auto target = static_cast<DataType>(required_integer(node.proto, "to"));
  const std::optional<ElementType> type = element_type(target);
  if (!type) return NotMapped{"casts to element type " + onnx::name_of(target)};
  if (*type == ElementType::boolean) return map_truth_of(node);
  return cast_to(node, *type);
}

/// All true, for an input of known shape (a boolean since opset 10).
Mapping map_dropout_with_mask(const NodeView& node) {
  const OpenShape* open = node.operands[0].shape;
  const std::optional<Shape> shape = open == nullptr ? std::nullopt : to_numbers(*open);
  if (node.opset < 10 || !shape) return NotMapped{"its mask is used, and no boolean of known shape"};
  const auto count = static_cast<std::size_t>(element_count(*shape));
  if (!node.allowance.take(count)) return NotMapped{"its mask is larger than a file of this size justifies"};
  MappedOps mapped;
  mapped.constants.emplace_back(ElementType::boolean, *shape, std::vector<std::byte>(count, std::byte{1}));
  mapped.outputs = {mapped.add(op::Identity{}, {MappedOps::slot(0)}), {MappedOps::Source::constant, 0}};
  return mapped;
}

/// At inference the identity, whose mask keeps everything; before opset 7 an attribute says so, from 12 on a constant
/// input.
Mapping map_dropout(const NodeView& node) {
  if (node.opset < 7 && integer_or(node.proto, "is_test", 0) == 0)
    return NotMapped{"training mode draws random numbers; export the model for inference"};
  if (is_given(node, 2)) {
    const StoredTensor* training = node.operands[2].constant;
    if (training == nullptr) return NotMapped{"its training mode is computed, not a constant"};
    if (training->size() != 1) fail("training_mode must be one boolean");
    if (training->to_double().values[0] != 0.0)
      return NotMapped{"training mode draws random numbers; export the model for inference"};
  }
  return uses_more_than_first(node) ? map_dropout_with_mask(node) : MappedOp{op::Identity{}, {0}};
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

constexpr std::array<Rule, 31> rules = {{
    {"Gemm", 2, 3, means<op::Gemm>(map_gemm), {"alpha", "beta", "transA", "transB"}, 1, {"broadcast"}},
    {"MatMul", 2, 2, plain<op::MatMul>, {}, 1},
    {"Add", 2, 2, means<op::Add>(map_arithmetic<op::Add>), {}, 1, {"broadcast", "axis"}},
    {"Sub", 2, 2, means<op::Sub>(map_arithmetic<op::Sub>), {}, 1, {"broadcast", "axis"}},
    {"Mul", 2, 2, means<op::Mul>(map_arithmetic<op::Mul>), {}, 1, {"broadcast", "axis"}},
    {"Div", 2, 2, means<op::Div>(map_arithmetic<op::Div>), {}, 1, {"broadcast", "axis"}},
    {"Neg", 1, 1, plain<op::Neg>, {}, 1},
    {"Relu", 1, 1, plain<op::Relu>, {}, 1},
    {"LeakyRelu", 1, 1, means<op::LeakyRelu>(map_leaky_relu), {"alpha"}, 1},
    {"Elu", 1, 1, means<op::Elu>(map_elu), {"alpha"}, 1},
    {"Tanh", 1, 1, plain<op::Tanh>, {}, 1},
    {"Sigmoid", 1, 1, plain<op::Sigmoid>, {}, 1},
    {"Softplus", 1, 1, plain<op::Softplus>, {}, 1},
    {"Sin", 1, 1, plain<op::Sin>, {}, 7},
    {"Cos", 1, 1, plain<op::Cos>, {}, 7},
    {"Exp", 1, 1, plain<op::Exp>, {}, 1},
    {"Erf", 1, 1, plain<op::Erf>, {}, 9},
    {"Sqrt", 1, 1, plain<op::Sqrt>, {}, 1},
    {"Softmax", 1, 1, means<op::Softmax>(map_softmax), {"axis"}, 1},
    {"Concat", 1, any_number, means<op::Concat>(map_concat), {"axis"}, 1},
    {"Reshape",
     1,
     2,
     means<op::Reshape>(map_reshape, "a target shape known when loading, but for one extent"),
     {"allowzero"},
     1,
     {"shape"},
     {{{"shape", 1, 5}}}},
    {"Flatten", 1, 1, means<op::Flatten>(map_flatten), {"axis"}, 1},
    {"Squeeze", 1, 2, means<op::Squeeze>(map_squeeze, "constant axes"), {"axes"}, 1},
    {"Unsqueeze", 1, 2, means<op::Unsqueeze>(map_unsqueeze, "constant axes"), {"axes"}, 1},
    {"Transpose", 1, 1, means<op::Transpose>(map_transpose), {"perm"}, 1},
    {"Identity", 1, 1, plain<op::Identity>, {}, 1},
    {"Cast",
     1,
     1,
     means<op::Cast, op::Choice, op::Truncate>(map_cast,
                                               "between floats and booleans; computed floats to int32, int64"),
     {"to", "saturate", "round_mode"},
     6},
    {"CastLike",
     2,
     2,
     means<op::Cast, op::Choice, op::Truncate>(map_cast_like,
                                               "between floats and booleans; computed floats to int32, int64"),
     {"saturate", "round_mode"},
     15},
    {"Dropout",
     1,
     3,
     means<op::Identity>(map_dropout, "at inference"),
     {"ratio", "seed"},
     1,
     {"is_test"},
     {{{"ratio", 1, 12}, {"training_mode", 2, 12}}}},
    {"Constant",
     0,
     0,
     means<>(map_constant, "numbers"),
     {"value", "sparse_value", "value_float", "value_floats", "value_int", "value_ints"},
     1},
    {"ConstantOfShape",
     1,
     1,
     means<>(map_constant_of_shape, "a constant shape, of a size that the file justifies"),
     {"value"},
     9},
}};

std::string why_too_old(std::int64_t opset, std::int64_t since) {
  return "opset " + std::to_string(opset) + " is older than " + std::to_string(since) +
         ", the first that has this op in a form known here; export the model for that opset or a newer one, "
         "or convert it with onnx.version_converter";
}

bool knows_attribute(const Rule& rule, std::string_view name, std::int64_t opset) {
  const auto lists = [name](const auto& names) { return std::find(names.begin(), names.end(), name) != names.end(); };
  if (opset < 6 && name == "consumed_inputs") return true;  // which inputs could be overwritten
  return lists(rule.attributes) || (opset < 7 && lists(rule.attributes_before_7));
}

void check_inputs(const NodeView& node, const Rule& rule) {
  const std::size_t given = node.operands.size();
  bool complete = given >= rule.least_inputs && given <= rule.most_inputs;
  const std::size_t required = rule.most_inputs == any_number ? given : rule.least_inputs;
  for (std::size_t slot = 0; complete && slot < required; ++slot) complete = is_given(node, slot);
  if (!complete) fail("wrong number of inputs for the op (" + std::to_string(given) + ")");
}

std::array<std::span<const Rule>, 14> families() {
  return {
      rules,        element_rules(),     logic_rules(),  reduction_rules(),     cumulation_rules(), selection_rules(),
      move_rules(), resize_rules(),      window_rules(), normalisation_rules(), attention_rules(),  recurrent_rules(),
      loss_rules(), quantisation_rules()};
}

const Rule* find_rule(std::string_view name) {
  for (const std::span<const Rule> family : families()) {
    for (const Rule& rule : family) {
      if (rule.name == name) return &rule;
    }
  }
  return nullptr;
}

/// Whether the mapping is what the rule's meaning says.
bool is_meant(const Mapping& mapping, const Meaning& meaning) {
  if (meaning.is_several) return true;
  const std::span<const std::size_t> kinds = meaning.kinds;
  const auto is_listed = [&](const Op& op) { return std::find(kinds.begin(), kinds.end(), op.index()) != kinds.end(); };
  return std::visit(
      Overloaded{
          [&](const MappedOp& one) { return is_listed(one.op) || std::holds_alternative<op::Identity>(one.op); },
          [&](const MappedOps& several) {
            return std::any_of(several.steps.begin(), several.steps.end(),
                               [&](const MappedOps::Step& step) { return is_listed(step.op); });
          },
          [&](const MappedConstant&) { return kinds.empty(); },
          [](const NotMapped&) { return true; },
      },
      mapping);
}

}  // namespace

void require_form(const NodeView& node) {
  const Rule* rule = find_rule(node.proto.op_type);
  if (rule == nullptr || node.opset < rule->since.number) return;
  for (const Moved& moved : rule->moved) {
    if (!moved.name.empty()) require_form(node, moved);
  }
}

Mapping map_node(const NodeView& node) {
  const Rule* rule = find_rule(node.proto.op_type);
  if (rule == nullptr) return NotMapped{"this version has no such op"};
  if (node.opset < rule->since.number) return NotMapped{why_too_old(node.opset, rule->since.number)};
  for (const auto& [name, bytes] : node.proto.attributes) {
    if (!knows_attribute(*rule, name, node.opset))
      return NotMapped{"attribute " + in_quotes(name) + " is not supported"};
  }
  check_inputs(node, *rule);
  Mapping mapping = rule->meaning.map(node);
  if (!is_meant(mapping, rule->meaning))
    throw std::logic_error("the ONNX rule of " + std::string(rule->name) + " makes an op that it does not list");
  return mapping;
}

}  // namespace driftbound::onnx

namespace driftbound {

std::vector<OnnxOp> onnx_ops() {
  std::vector<OnnxOp> result;
  for (const std::span<const onnx::Rule> family : onnx::families()) {
    for (const onnx::Rule& rule : family) {
      const onnx::Meaning& meaning = rule.meaning;
      result.push_back({rule.name, rule.since.number, {meaning.kinds.begin(), meaning.kinds.end()}, meaning.limits});
    }
  }
  return result;
}

}  // namespace driftbound
