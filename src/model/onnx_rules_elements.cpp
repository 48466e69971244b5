#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "driftbound/num/errors.hpp"
#include "model/onnx_attributes.hpp"
#include "model/onnx_rules.hpp"
#include "model/onnx_steps.hpp"
#include "model/shapes.hpp"
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

/// A computed limit, which must be one number, as a scalar.
MappedOps::Input limit_of(const NodeView& node, StepWriter& steps, std::size_t slot) {
  const auto shape = shape_of(node, slot);
  if (!shape || element_count(*shape) != 1)
    throw Unsupported("its limits are computed and not known to be single numbers");
  return shape->empty() ? steps.slot(slot) : steps.reshape(steps.slot(slot), {});
}

/// The lower limit first: where it is above the upper one, that is the result.
Mapping map_clip_by_computed(const NodeView& node, const op::Clip& known) {
  StepWriter steps(node);
  const bool computes_least = is_given(node, 1) && node.operands[1].constant == nullptr;
  const bool computes_most = is_given(node, 2) && node.operands[2].constant == nullptr;
  op::Clip one_sided;
  MappedOps::Input x = steps.slot(0);
  (computes_least ? one_sided.most : one_sided.least) = computes_least ? known.most : known.least;
  const bool is_clipped = is_given(node, computes_least ? 2 : 1) && !(computes_least && computes_most);
  if (is_clipped && computes_most) x = steps.apply(one_sided, {x});
  if (computes_least) x = steps.apply(op::Max{}, {x, limit_of(node, steps, 1)});
  if (computes_most) x = steps.apply(op::Min{}, {x, limit_of(node, steps, 2)});
  if (is_clipped && computes_least) x = steps.apply(one_sided, {x});
  return steps.finish(x);
}

Mapping map_clip(const NodeView& node) {
  op::Clip clip;
  if (node.opset < 11) {
    constexpr float largest = std::numeric_limits<float>::max();
    if (find_attribute(node.proto, "min", AttributeType::real)) clip.least = real_or(node.proto, "min", -largest);
    if (find_attribute(node.proto, "max", AttributeType::real)) clip.most = real_or(node.proto, "max", largest);
    return MappedOp{clip, {0}};
  }
  bool are_known = true;
  for (const std::size_t slot : {std::size_t{1}, std::size_t{2}}) {
    if (!is_given(node, slot)) continue;
    const auto limit = constant_number(node, slot);
    are_known = are_known && limit.has_value();
    if (limit) (slot == 1 ? clip.least : clip.most) = *limit;
  }
  return are_known ? MappedOp{clip, {0}} : map_clip_by_computed(node, clip);
}

/// x + bias below -lambd, x - bias above lambd, 0 between.
Mapping map_shrink(const NodeView& node) {
  const double bias = real_or(node.proto, "bias", 0.0f), limit = real_or(node.proto, "lambd", 0.5f);
  StepWriter steps(node);
  const MappedOps::Input x = steps.slot(0);
  const MappedOps::Input upper = steps.number(limit), lower = steps.number(-limit), shift = steps.number(bias);
  const MappedOps::Input is_above = steps.apply(op::Greater{}, {x, upper});
  const MappedOps::Input is_below = steps.apply(op::Greater{}, {lower, x});
  const MappedOps::Input above = bias == 0.0 ? x : steps.subtract(x, shift);
  const MappedOps::Input below = bias == 0.0 ? x : steps.add(x, shift);
  const MappedOps::Input rest = steps.apply(op::Choice{}, {is_above, above, steps.zero()});
  return steps.finish(steps.apply(op::Choice{}, {is_below, below, rest}));
}

/// The remainder of a division that truncates: a - b sign(a / b) floor(|a / b|).
Mapping map_mod(const NodeView& node) {
  if (integer_or(node.proto, "fmod", 0) == 0) return NotMapped{"the remainder of integers (fmod = 0)"};
  StepWriter steps(node);
  const MappedOps::Input a = steps.slot(0), b = steps.slot(1);
  const MappedOps::Input quotient = steps.divide(a, b);
  const MappedOps::Input whole = steps.apply(op::Floor{}, {steps.apply(op::Abs{}, {quotient})});
  const MappedOps::Input times = steps.multiply(steps.apply(op::Sign{}, {quotient}), whole);
  return steps.finish(steps.subtract(a, steps.multiply(times, b)));
}

/// 1 for the first of the largest elements along an axis, else 0: of the largest, that with the highest number where
/// they are counted down. Before opset 13 along all axes from `axis` on.
Mapping map_hardmax(const NodeView& node) {
  const bool coerces_to_matrix = node.opset < 13;
  if (node.operands[0].shape == nullptr) return NotMapped{"the shape of its input is not known when loading"};
  const OpenShape& shape = *node.operands[0].shape;
  const std::size_t axis = normalized_axis(integer_or(node.proto, "axis", coerces_to_matrix ? 1 : -1), shape.size());
  const OpenShape reduced(shape.begin() + static_cast<std::ptrdiff_t>(axis),
                          coerces_to_matrix ? shape.end() : shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  const auto extents = to_numbers(reduced);
  const auto target = reshape_target(shape);
  constexpr std::int64_t longest = 1 << 16;
  if (!extents || !target) return NotMapped{"runs along an axis whose extent is not known when loading"};
  const std::int64_t extent = element_count(*extents);
  if (extent < 1 || extent > longest) return NotMapped{"runs along an axis of none, or of more than 2^16 elements"};

  StepWriter steps(node);
  MappedOps::Input x = steps.slot(0);
  if (coerces_to_matrix) x = steps.apply(op::Flatten{static_cast<std::int64_t>(axis)}, {x});
  const std::vector<std::int64_t> along = {coerces_to_matrix ? 1 : static_cast<std::int64_t>(axis)};
  Tensor<double> numbers(Shape(coerces_to_matrix ? 1 : shape.size() - axis, 1), {});
  numbers.shape[0] = extent;
  for (std::int64_t i = extent; i > 0; --i) numbers.values.push_back(static_cast<double>(i));
  const MappedOps::Input countdown = steps.numbers(numbers), one = steps.number(1.0), zero = steps.zero();
  const MappedOps::Input largest = steps.apply(op::ReduceMax{along, true}, {x});
  const MappedOps::Input are_largest = steps.apply(op::Equal{}, {x, largest});
  const MappedOps::Input counted = steps.apply(op::Choice{}, {are_largest, countdown, zero});
  const MappedOps::Input first = steps.apply(op::ReduceMax{along, true}, {counted});
  MappedOps::Input y = steps.apply(op::Choice{}, {steps.apply(op::Equal{}, {counted, first}), one, zero});
  if (coerces_to_matrix) y = steps.reshape(y, *target);
  return steps.finish(y);
}

/// 2 atan(x / (1 + sqrt((1 - x) (1 + x)))), which is asin x up to x = -1 and 1.
MappedOps::Input half_arc_sine(StepWriter& steps, MappedOps::Input one) {
  const MappedOps::Input x = steps.slot(0);
  const MappedOps::Input below = steps.subtract(one, x), above = steps.add(one, x);
  const MappedOps::Input root = steps.apply(op::Sqrt{}, {steps.multiply(below, above)});
  return steps.apply(op::Atan{}, {steps.divide(x, steps.add(one, root))});
}

Mapping map_asin(const NodeView& node) {
  StepWriter steps(node);
  const MappedOps::Input one = steps.number(1.0), two = steps.number(2.0);
  return steps.finish(steps.multiply(two, half_arc_sine(steps, one)));
}

/// acos x = pi / 2 - asin x, where pi / 4 = atan 1
Mapping map_acos(const NodeView& node) {
  StepWriter steps(node);
  const MappedOps::Input one = steps.number(1.0), two = steps.number(2.0);
  const MappedOps::Input right_angle = steps.apply(op::Atan{}, {one});
  return steps.finish(steps.multiply(two, steps.subtract(right_angle, half_arc_sine(steps, one))));
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

constexpr std::array<Rule, 32> rules = {{
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
     means<op::Clip, op::Max, op::Min>(map_clip,
                                       "limits that are known to be single numbers; computed ones by Max and Min"),
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
    {"Shrink",
     1,
     1,
     composes(map_shrink, "x + bias below -lambd, x - bias above lambd, 0 between: choices"),
     {"bias", "lambd"},
     9},
    {"Mod", 2, 2, composes(map_mod, "floats and fmod = 1; a - b · sign(a / b) · floor(|a / b|)"), {"fmod"}, 10},
    {"Hardmax", 1, 1, composes(map_hardmax, "an axis of known extent; comparisons and choices"), {"axis"}, 1},
    {"Asin", 1, 1, composes(map_asin, "2 atan(x / (1 + √((1 - x) · (1 + x))))"), {}, 7},
    {"Acos", 1, 1, composes(map_acos, "2 atan(1) less asin x"), {}, 7},
    {"Gelu", 1, 1, means<op::Gelu>(map_gelu), {"approximate"}, 20},
}};

}  // namespace

std::span<const Rule> element_rules() {
  return rules;
}

}  // namespace driftbound::onnx
