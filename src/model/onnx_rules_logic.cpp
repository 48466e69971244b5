#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/shapes.hpp"

// Comparisons, and logic on what they give. Everything but the comparisons is a choice by a truth value.

namespace driftbound::onnx {

MappedOps::Input place_second(const NodeView& node, MappedOps& ops) {
  const MappedOps::Input second = MappedOps::slot(1);
  const auto axis = node.opset < 7 ? find_attribute(node.proto, "axis", AttributeType::integer) : std::nullopt;
  if (!axis || integer_or(node.proto, "broadcast", 0) == 0) return second;
  if (node.operands[0].shape == nullptr || node.operands[1].shape == nullptr)
    throw Unsupported("places an operand of unknown shape; export the model with fixed input shapes");
  const std::size_t rank = node.operands[0].shape->size(), placed = node.operands[1].shape->size();
  const std::size_t first = normalized_axis(axis->integer.value_or(0), rank);
  if (placed > rank - first) fail("its second input does not fit from axis " + std::to_string(first) + " on");
  op::Unsqueeze unsqueeze;
  for (std::size_t i = placed; i < rank - first; ++i) unsqueeze.axes.push_back(static_cast<std::int64_t>(i));
  if (unsqueeze.axes.empty()) return second;
  return ops.add(std::move(unsqueeze), {second});
}

namespace {

using Input = MappedOps::Input;

const Input first_operand = MappedOps::slot(0);

Input add_constant(MappedOps& ops, StoredTensor constant) {
  ops.constants.push_back(std::move(constant));
  return {MappedOps::Source::constant, ops.constants.size() - 1};
}

Input add_truth(MappedOps& ops, bool value) {
  return add_constant(ops, StoredTensor(ElementType::boolean, {}, {std::byte{value}}));
}

Input add_not(MappedOps& ops, Input a) {
  const Input no = add_truth(ops, false), yes = add_truth(ops, true);
  return ops.add(op::Choice{}, {a, no, yes});
}

MappedOps with_output(MappedOps ops, Input output) {
  ops.outputs = {output};
  return ops;
}

/// a < b is b > a.
template <class Comparison, bool exchanges>
Mapping map_comparison(const NodeView& node) {
  MappedOps ops;
  const Input second = place_second(node, ops);
  const Input result =
      exchanges ? ops.add(Comparison{}, {second, first_operand}) : ops.add(Comparison{}, {first_operand, second});
  return with_output(std::move(ops), result);
}

Mapping map_not(const NodeView&) {
  MappedOps ops;
  const Input result = add_not(ops, first_operand);
  return with_output(std::move(ops), result);
}

Mapping map_and(const NodeView& node) {
  MappedOps ops;
  const Input second = place_second(node, ops), no = add_truth(ops, false);
  const Input result = ops.add(op::Choice{}, {first_operand, second, no});
  return with_output(std::move(ops), result);
}

Mapping map_or(const NodeView& node) {
  MappedOps ops;
  const Input second = place_second(node, ops), yes = add_truth(ops, true);
  const Input result = ops.add(op::Choice{}, {first_operand, yes, second});
  return with_output(std::move(ops), result);
}

Mapping map_xor(const NodeView& node) {
  MappedOps ops;
  const Input second = place_second(node, ops);
  const Input result = ops.add(op::Choice{}, {first_operand, add_not(ops, second), second});
  return with_output(std::move(ops), result);
}

/// Whether a number is NaN or infinite, which no real number is: 0 x > 1.
Mapping map_is_no_number(const NodeView& node) {
  const auto type = node.operands[0].type;
  if (!type || !is_float(*type)) return NotMapped{"it takes floats"};
  StepWriter steps(node);
  return steps.finish(
      steps.apply(op::Greater{}, {steps.multiply(steps.slot(0), steps.number(0.0)), steps.number(1.0)}));
}

constexpr std::array<Rule, 11> rules = {{
    {"Greater", 2, 2, means<op::Greater>(map_comparison<op::Greater, false>), {}, 1, {"broadcast", "axis"}},
    {"Less", 2, 2, means<op::Greater>(map_comparison<op::Greater, true>), {}, 1, {"broadcast", "axis"}},
    {"GreaterOrEqual", 2, 2, means<op::GreaterOrEqual>(map_comparison<op::GreaterOrEqual, false>), {}, 12},
    {"LessOrEqual", 2, 2, means<op::GreaterOrEqual>(map_comparison<op::GreaterOrEqual, true>), {}, 12},
    {"Equal", 2, 2, means<op::Equal>(map_comparison<op::Equal, false>), {}, 1, {"broadcast", "axis"}},
    {"Not", 1, 1, means<op::Choice>(map_not), {}, 1},
    {"And", 2, 2, means<op::Choice>(map_and), {}, 1, {"broadcast", "axis"}},
    {"Or", 2, 2, means<op::Choice>(map_or), {}, 1, {"broadcast", "axis"}},
    {"Xor", 2, 2, means<op::Choice>(map_xor), {}, 1, {"broadcast", "axis"}},
    {"IsNaN", 1, 1, composes(map_is_no_number, "0 for every real number: Mul, Greater"), {}, 9},
    {"IsInf",
     1,
     1,
     composes(map_is_no_number, "0 for every real number: Mul, Greater"),
     {"detect_negative", "detect_positive"},
     10},
}};

}  // namespace

Mapping map_truth_of(const NodeView& node) {
  const std::optional<ElementType> type = node.operands[0].type;
  if (node.operands[0].constant != nullptr || !type) return MappedOp{op::Cast{ElementType::boolean}, {0}};
  if (*type == ElementType::boolean) return MappedOp{op::Identity{}, {0}};
  MappedOps ops;
  const Input zero = add_constant(ops, StoredTensor(*type, {}, std::vector<std::byte>(bytes_per_element(*type))));
  const Input result = add_not(ops, ops.add(op::Equal{}, {first_operand, zero}));
  return with_output(std::move(ops), result);
}

std::span<const Rule> logic_rules() {
  return rules;
}

}  // namespace driftbound::onnx
