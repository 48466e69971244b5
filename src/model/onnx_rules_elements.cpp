#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/text.hpp"

namespace driftbound::onnx {
namespace {

/// One power of all elements for every exponent that occurs, of which each element takes its own.
Mapping map_powers(const Tensor<double>& exponents) {
  constexpr std::size_t most_exponents = 256;
  const std::set<double> distinct(exponents.values.begin(), exponents.values.end());
  if (distinct.empty() || distinct.size() > most_exponents)
    return NotMapped{"its exponents are more than 256 different numbers, or none"};
  MappedOps mapped;
  std::optional<MappedOps::Input> result;
  for (const double exponent : distinct) {
    const MappedOps::Input power = mapped.add(op::Pow{exponent}, {MappedOps::slot(0)});
    op::Where has_exponent{exponents.shape, {}};
    for (const double each : exponents.values) has_exponent.condition.push_back(each == exponent);
    result = mapped.add(std::move(has_exponent), {power, result.value_or(power)});
  }
  mapped.outputs = {*result};
  return mapped;
}

Mapping map_pow(const NodeView& node) {
  const StoredTensor* exponent = node.operands[1].constant;
  if (exponent == nullptr) return NotMapped{"its exponent is computed, not a constant"};
  const auto rank = rank_of(node, 0);
  const bool keeps_shape = exponent->shape().empty() || (rank && exponent->shape().size() <= *rank);
  if (exponent->size() == 1 && keeps_shape) return MappedOp{op::Pow{*constant_number(node, 1)}, {0}};
  if (node.opset < 7 && find_attribute(node.proto, "axis", AttributeType::integer))
    return NotMapped{"its exponents are placed by 'axis', in the way of opsets before 7"};
  const Tensor<double> exponents = exponent->to_double();
  const bool are_finite =
      std::all_of(exponents.values.begin(), exponents.values.end(), [](double value) { return std::isfinite(value); });
  return are_finite ? map_powers(exponents) : NotMapped{"an exponent that is not finite"};
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

/// Opset 6 gave the coefficients more digits.
Mapping map_selu(const NodeView& node) {
  op::Selu selu;
  if (node.opset < 6) selu = {1.6732f, 1.0507f};
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

/// Before opset 7 several slopes are those of the channels, axis 1.
Mapping map_prelu(const NodeView& node) {
  if (node.opset >= 7) return map_plain<op::PRelu>(node);
  const auto rank = rank_of(node, 0), slopes = rank_of(node, 1);
  if (!rank || !slopes) return NotMapped{"its slopes belong to channels, and the rank of its input is not known"};
  if (*slopes != 1 || *rank <= 2) return map_plain<op::PRelu>(node);
  op::Unsqueeze behind;
  for (std::size_t axis = 1; axis + 1 < *rank; ++axis) behind.axes.push_back(static_cast<std::int64_t>(axis));
  MappedOps mapped;
  const MappedOps::Input placed = mapped.add(std::move(behind), {MappedOps::slot(1)});
  mapped.outputs = {mapped.add(op::PRelu{}, {MappedOps::slot(0), placed})};
  return mapped;
}

template <class Binary, class Variadic>
Mapping map_extremum(const NodeView& node) {
  if (node.operands.size() == 2) return map_plain<Binary>(node);
  return map_plain<Variadic>(node);
}

constexpr std::array<Rule, 27> rules = {{
    {"Abs", 1, 1, plain<op::Abs>, {}, 1},
    {"Reciprocal", 1, 1, plain<op::Reciprocal>, {}, 1},
    {"Log", 1, 1, plain<op::Log>, {}, 1},
    {"Tan", 1, 1, plain<op::Tan>, {}, 7},
    {"Atan", 1, 1, plain<op::Atan>, {}, 7},
    {"Sinh", 1, 1, plain<op::Sinh>, {}, 9},
    {"Cosh", 1, 1, plain<op::Cosh>, {}, 9},
    {"Floor", 1, 1, plain<op::Floor>, {}, 1},
    {"Ceil", 1, 1, plain<op::Ceil>, {}, 1},
    {"Round", 1, 1, plain<op::Round>, {}, 11},
    {"Sign", 1, 1, plain<op::Sign>, {}, 9},
    {"Pow",
     2,
     2,
     means<op::Pow, op::Where>(map_pow, "constant exponents, at most 256 different ones"),
     {},
     1,
     {"broadcast", "axis"}},
    {"Clip",
     1,
     3,
     means<op::Clip>(map_clip, "constant limits"),
     {"min", "max"},
     1,
     {},
     {{{"min", 1, 11}, {"max", 2, 11}}}},
    {"ThresholdedRelu", 1, 1, means<op::ThresholdedRelu>(map_with_alpha<op::ThresholdedRelu>), {"alpha"}, 10},
    {"PRelu", 2, 2, means<op::PRelu>(map_prelu), {}, 1},
    {"Min", 1, any_number, means<op::Min, op::MinOf>(map_extremum<op::Min, op::MinOf>), {}, 1},
    {"Max", 1, any_number, means<op::Max, op::MaxOf>(map_extremum<op::Max, op::MaxOf>), {}, 1},
    {"Sum", 1, any_number, plain<op::SumOf>, {}, 1},
    {"Mean", 1, any_number, plain<op::MeanOf>, {}, 1},
    {"Selu", 1, 1, means<op::Selu>(map_selu), {"alpha", "gamma"}, 1},
    {"Celu", 1, 1, means<op::Celu>(map_celu, "alpha above 0"), {"alpha"}, 12},
    {"HardSigmoid", 1, 1, means<op::HardSigmoid>(map_hard_sigmoid), {"alpha", "beta"}, 1},
    {"HardSwish", 1, 1, plain<op::HardSwish>, {}, 14},
    {"Swish", 1, 1, means<op::Swish>(map_with_alpha<op::Swish>), {"alpha"}, 24},
    {"Mish", 1, 1, plain<op::Mish>, {}, 18},
    {"Softsign", 1, 1, plain<op::Softsign>, {}, 1},
    {"Gelu", 1, 1, means<op::Gelu>(map_gelu), {"approximate"}, 20},
}};

}  // namespace

std::span<const Rule> element_rules() {
  return rules;
}

}  // namespace driftbound::onnx
