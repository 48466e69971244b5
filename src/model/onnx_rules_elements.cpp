#include <limits>

#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

Mapping map_pow(const NodeView& node) {
  const StoredTensor* exponent = node.operands[1].constant;
  if (exponent == nullptr) return NotMapped{"its exponent is computed, not a constant"};
  const auto rank = rank_of(node, 0);
  const bool keeps_shape = exponent->shape().empty() || (rank && exponent->shape().size() <= *rank);
  if (exponent->size() != 1 || !keeps_shape) return NotMapped{"its exponent is more than one number"};
  return MappedOp{op::Pow{*constant_number(node, 1)}, {0}};
}

Mapping map_clip(const NodeView& node) {
  op::Clip clip;
  if (node.opset < 11) {
    constexpr float largest = std::numeric_limits<float>::max();
    if (find_attribute(node.proto, "min", AttributeType::real)) clip.least = real_or(node.proto, "min", -largest);
    if (find_attribute(node.proto, "max", AttributeType::real)) clip.most = real_or(node.proto, "max", largest);
    return MappedOp{clip, {0}};
  }
  for (const std::size_t slot : {std::size_t{1}, std::size_t{2}}) {
    if (!is_given(node, slot)) continue;
    const auto limit = constant_number(node, slot);
    if (!limit) return NotMapped{"its limits are computed, not constants"};
    (slot == 1 ? clip.least : clip.most) = *limit;
  }
  return MappedOp{clip, {0}};
}

template <class Activation>
Mapping map_with_alpha(const NodeView& node) {
  Activation activation;
  if (find_attribute(node.proto, "alpha", AttributeType::real)) activation.alpha = real_or(node.proto, "alpha", 0.0f);
  return MappedOp{activation, {0}};
}

Mapping map_selu(const NodeView& node) {
  op::Selu selu;
  if (find_attribute(node.proto, "alpha", AttributeType::real)) selu.alpha = real_or(node.proto, "alpha", 0.0f);
  if (find_attribute(node.proto, "gamma", AttributeType::real)) selu.gamma = real_or(node.proto, "gamma", 0.0f);
  return MappedOp{selu, {0}};
}

Mapping map_celu(const NodeView& node) {
  const double alpha = real_or(node.proto, "alpha", 1.0f);
  if (!(alpha > 0.0)) return NotMapped{"an alpha that is not positive"};
  return MappedOp{op::Celu{alpha}, {0}};
}

Mapping map_hard_sigmoid(const NodeView& node) {
  return MappedOp{op::HardSigmoid{real_or(node.proto, "alpha", 0.2f), real_or(node.proto, "beta", 0.5f)}, {0}};
}

Mapping map_gelu(const NodeView& node) {
  const std::string_view form = text_or(node.proto, "approximate", "none");
  if (form != "none" && form != "tanh") fail("attribute 'approximate' is " + in_quotes(form));
  return MappedOp{op::Gelu{form == "tanh"}, {0}};
}

/// Old opsets align shapes by attributes.
template <class T>
Mapping map_prelu(const NodeView& node) {
  if (node.opset < 7) return NotMapped{"its slopes are broadcast in the way of opsets before 7"};
  return map_plain<T>(node);
}

template <class Binary, class Variadic>
Mapping map_extremum(const NodeView& node) {
  if (node.operands.size() == 2) return map_plain<Binary>(node);
  return map_plain<Variadic>(node);
}

constexpr std::array<Rule, 26> rules = {{
    {"Abs", 1, 1, plain<op::Abs>},
    {"Reciprocal", 1, 1, plain<op::Reciprocal>},
    {"Log", 1, 1, plain<op::Log>},
    {"Tan", 1, 1, plain<op::Tan>},
    {"Atan", 1, 1, plain<op::Atan>},
    {"Sinh", 1, 1, plain<op::Sinh>},
    {"Cosh", 1, 1, plain<op::Cosh>},
    {"Floor", 1, 1, plain<op::Floor>},
    {"Ceil", 1, 1, plain<op::Ceil>},
    {"Sign", 1, 1, plain<op::Sign>},
    {"Pow", 2, 2, means<op::Pow>(map_pow, "a constant exponent, one number")},
    {"Clip", 1, 3, means<op::Clip>(map_clip, "constant limits"), {"min", "max"}},
    {"ThresholdedRelu", 1, 1, means<op::ThresholdedRelu>(map_with_alpha<op::ThresholdedRelu>), {"alpha"}},
    {"PRelu", 2, 2, means<op::PRelu>(map_prelu<op::PRelu>)},
    {"Min", 1, any_number, means<op::Min, op::MinOf>(map_extremum<op::Min, op::MinOf>)},
    {"Max", 1, any_number, means<op::Max, op::MaxOf>(map_extremum<op::Max, op::MaxOf>)},
    {"Sum", 1, any_number, plain<op::SumOf>},
    {"Mean", 1, any_number, plain<op::MeanOf>},
    {"Selu", 1, 1, means<op::Selu>(map_selu), {"alpha", "gamma"}},
    {"Celu", 1, 1, means<op::Celu>(map_celu, "alpha above 0"), {"alpha"}},
    {"HardSigmoid", 1, 1, means<op::HardSigmoid>(map_hard_sigmoid), {"alpha", "beta"}},
    {"HardSwish", 1, 1, plain<op::HardSwish>},
    {"Swish", 1, 1, means<op::Swish>(map_with_alpha<op::Swish>), {"alpha"}},
    {"Mish", 1, 1, plain<op::Mish>},
    {"Softsign", 1, 1, plain<op::Softsign>},
    {"Gelu", 1, 1, means<op::Gelu>(map_gelu), {"approximate"}},
}};

}  // namespace

std::span<const Rule> element_rules() {
  return rules;
}

}  // namespace driftbound::onnx
