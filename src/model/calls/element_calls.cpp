#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/calls/call_writer.hpp"
#include "model/text.hpp"

// Functions of single elements.

namespace driftbound::calls {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class T>
void unary(CallWriter& call) {
  call.result(0, call.add(T{}, {call.x(0)}));
}

/// The second operand: a tensor, or a number among the arguments.
ValueId second(CallWriter& call, std::string_view name) {
  if (call.is_given(1)) return call.x(1);
  if (!call.has(name)) throw ShapeMismatch("its second operand is missing");
  return call.number(call.real(name, 0.0));
}

template <class T>
void binary(CallWriter& call) {
  call.result(0, call.add(T{}, {call.x(0), second(call, "other")}));
}

/// Truth values; `swaps`: of the operands in the other order.
template <class T, bool swaps = false>
void comparison(CallWriter& call) {
  const ValueId x = call.x(0), y = second(call, "other");
  call.result(0, call.add(T{}, swaps ? std::vector<ValueId>{y, x} : std::vector<ValueId>{x, y}));
}

/// x ± alpha y
template <class T>
void sum(CallWriter& call) {
  ValueId other = second(call, "other");
  if (const double alpha = call.real("alpha", 1.0); alpha != 1.0)
    other = call.add(op::Mul{}, {other, call.number(alpha)});
  call.result(0, call.add(T{}, {call.x(0), other}));
}

void reversed_difference(CallWriter& call) {
  const double alpha = call.real("alpha", 1.0);
  ValueId taken = call.x(0);
  if (alpha != 1.0) taken = call.add(op::Mul{}, {taken, call.number(alpha)});
  call.result(0, call.add(op::Sub{}, {second(call, "other"), taken}));
}

void quotient(CallWriter& call) {
  if (const std::string mode = call.text("rounding_mode", ""); !mode.empty())
    refuse("it rounds the quotient (rounding_mode " + in_quotes(mode) + ")");
  binary<op::Div>(call);
}

void reciprocal_root(CallWriter& call) {
  call.result(0, call.add(op::Reciprocal{}, {call.add(op::Sqrt{}, {call.x(0)})}));
}

/// Programs compute these exponents by products, roots and quotients, and all others by a function, which reads the
/// exponent in the type of the operand.
void power(CallWriter& call) {
  if (!call.has("exponent")) refuse("its exponent is a tensor");
  const FormatId own = float_format(call.type_of(0)).value_or(FormatId::fp32);
  const double given = call.real("exponent", 1.0), exponent = round_to(given, format(own), Rounding::nearest_even);
  const bool is_narrow = format(own).precision < format(FormatId::fp32).precision;
  if (exponent != given && is_narrow)
    refuse("programs may round its exponent to the narrow type of its operand, or not");
  const ValueId x = call.x(0);
  const auto square = [&] { return call.add(op::Mul{}, {x, x}); };
  if (exponent == 0.5) return call.result(0, call.add(op::Sqrt{}, {x}));
  if (exponent == 2.0) return call.result(0, square());
  if (exponent == 3.0) return call.result(0, call.add(op::Mul{}, {square(), x}));
  if (exponent == -0.5) return reciprocal_root(call);
  if (exponent == -1.0) return call.result(0, call.add(op::Reciprocal{}, {x}));
  if (exponent == -2.0) return call.result(0, call.add(op::Reciprocal{}, {square()}));
  call.result(0, call.add(op::Pow{exponent}, {x}));
}

void square(CallWriter& call) {
  call.result(0, call.add(op::Mul{}, {call.x(0), call.x(0)}));
}

void gelu(CallWriter& call) {
  const std::string form = call.text("approximate", "none");
  if (form != "none" && form != "tanh") refuse("it is a Gelu of the form " + in_quotes(form));
  call.result(0, call.add(op::Gelu{form == "tanh"}, {call.x(0)}));
}

void elu(CallWriter& call) {
  if (call.real("scale", 1.0) != 1.0 || call.real("input_scale", 1.0) != 1.0) refuse("it is an Elu that scales");
  call.result(0, call.add(op::Elu{call.real("alpha", 1.0)}, {call.x(0)}));
}

void leaky_relu(CallWriter& call) {
  call.result(0, call.add(op::LeakyRelu{call.real("negative_slope", 0.01)}, {call.x(0)}));
}

/// The bounds are numbers, or tensors: operands `least` and `most`, 0 for none.
void clamp_between(CallWriter& call, std::size_t least, std::size_t most) {
  ValueId x = call.x(0);
  const double lower = call.real("min", -infinity), upper = call.real("max", infinity);
  if (lower != -infinity || upper != infinity || !(call.is_given(least) || call.is_given(most)))
    x = call.add(op::Clip{lower, upper}, {x});
  if (least != 0 && call.is_given(least)) x = call.add(op::Max{}, {x, call.x(least)});
  if (most != 0 && call.is_given(most)) x = call.add(op::Min{}, {x, call.x(most)});
  call.result(0, x);
}

void clamp(CallWriter& call) {
  clamp_between(call, 1, 2);
}
void at_least(CallWriter& call) {
  clamp_between(call, 1, 0);
}
void at_most(CallWriter& call) {
  clamp_between(call, 0, 1);
}

/// The first half of an axis times the Sigmoid of the second.
void glu(CallWriter& call) {
  const ValueId x = call.x(0);
  const std::int64_t axis = call.integer("dim", -1), rank = call.rank(x);
  if (rank == 0 || axis < -rank || axis >= rank) throw ShapeMismatch("it has no such axis");
  const std::int64_t extent = call.shape(x)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  if (extent % 2 != 0) throw ShapeMismatch("the axis that it halves has an odd extent");
  const auto half = [&](std::int64_t first) {
    return call.add(op::Slice{{first}, {first + extent / 2}, {axis}, {}}, {x});
  };
  call.result(0, call.add(op::Mul{}, {half(0), call.add(op::Sigmoid{}, {half(extent / 2)})}));
}

void celu(CallWriter& call) {
  call.result(0, call.add(op::Celu{call.real("alpha", 1.0)}, {call.x(0)}));
}

void hardtanh(CallWriter& call) {
  call.result(0, call.add(op::Clip{call.real("min_val", -1.0), call.real("max_val", 1.0)}, {call.x(0)}));
}

void relu6(CallWriter& call) {
  call.result(0, call.add(op::Clip{0.0, 6.0}, {call.x(0)}));
}

void hard_sigmoid(CallWriter& call) {
  const ValueId shifted = call.add(op::Add{}, {call.x(0), call.number(3.0)});
  call.result(0, call.add(op::Div{}, {call.add(op::Clip{0.0, 6.0}, {shifted}), call.number(6.0)}));
}

void softplus(CallWriter& call) {
  constexpr double least_threshold = 20.0;  // beyond it log(1 + e^x) is x in float32
  if (call.real("beta", 1.0) != 1.0) refuse("it is a Softplus with a beta other than 1");
  const double threshold = call.real("threshold", least_threshold);
  if (threshold < least_threshold) refuse("it is a Softplus with a threshold below 20");
  constexpr double least_of_double = 37.0;
  if (call.type_of(0) == ElementType::f64 && threshold < least_of_double)
    refuse("it is x above its threshold, which is another number in float64");
  call.result(0, call.add(op::Softplus{}, {call.x(0)}));
}

/// silu of the first half of the last axis times the second half.
void silu_and_mul(CallWriter& call) {
  const ValueId x = call.x(0);
  const std::int64_t width = call.rank(x) == 0 ? 1 : call.shape(x).back();
  if (width % 2 != 0) throw ShapeMismatch("its last axis has an odd extent");
  const auto half = [&](std::int64_t first) {
    return call.add(op::Slice{{first}, {first + width / 2}, {-1}, {}}, {x});
  };
  call.result(0, call.add(op::Mul{}, {call.add(op::Swish{}, {half(0)}), half(width / 2)}));
}

/// a + value b c
void sum_with_product(CallWriter& call) {
  ValueId product = call.add(op::Mul{}, {call.x(1), call.x(2)});
  if (const double value = call.real("value", 1.0); value != 1.0)
    product = call.add(op::Mul{}, {product, call.number(value)});
  call.result(0, call.add(op::Add{}, {call.x(0), product}));
}

/// a + value b / c
void sum_with_quotient(CallWriter& call) {
  ValueId quotient = call.x(1);
  if (const double value = call.real("value", 1.0); value != 1.0)
    quotient = call.add(op::Mul{}, {quotient, call.number(value)});
  call.result(0, call.add(op::Add{}, {call.x(0), call.add(op::Div{}, {quotient, call.x(2)})}));
}

/// x below 0 times a weight, one in all or one a channel (axis 1).
void parametric_relu(CallWriter& call) {
  const ValueId x = call.x(0), weight = call.x(1);
  Shape shape = call.shape(weight);
  if (element_count(shape) != 1 && call.rank(x) > 2)
    for (std::int64_t axis = 2; axis < call.rank(x); ++axis) shape.push_back(1);
  call.result(0, call.add(op::PRelu{}, {x, call.reshape(weight, shape)}));
}

/// log(1 / (1 + e^-x)) = -Softplus(-x)
void log_sigmoid(CallWriter& call) {
  const ValueId opposite = call.add(op::Neg{}, {call.x(0)});
  call.result(0, call.add(op::Neg{}, {call.add(op::Softplus{}, {opposite})}));
}

/// The parts of a sum that ranks have, in any order.
void all_reduce(CallWriter& call) {
  if (const std::string how = call.text("reduce", "sum"); how != "sum" && how != "mean")
    refuse("it reduces by " + in_quotes(how));
  const bool divides = call.text("reduce", "sum") == "mean";
  std::vector<ValueId> parts;
  for (std::size_t slot = 0; slot < call.operand_count(); ++slot) {
    if (!call.is_given(slot)) throw ShapeMismatch("the part of rank " + std::to_string(slot) + " is not recorded");
    const ValueId part = call.x(slot);
    Shape with_rank = call.shape(part);
    with_rank.insert(with_rank.begin(), 1);
    parts.push_back(call.reshape(part, with_rank));
  }
  if (parts.empty()) throw ShapeMismatch("it has no parts");
  const ValueId stacked = call.add(op::Concat{0}, parts);
  const ValueId total = call.add(op::ReduceSum{{0}, false}, {stacked});
  const auto count = static_cast<double>(parts.size());
  call.result(0, divides ? call.add(op::Div{}, {total, call.number(count)}) : total);
}

constexpr std::array element_rules = {
    CallRule{"_C::silu_and_mul", silu_and_mul, "x1 Sigmoid(x1) x2, the halves x1, x2 of the last axis"},
    CallRule{"aten::_prelu_kernel", parametric_relu, "PRelu"},
    CallRule{"aten::abs", unary<op::Abs>, "|x|"},
    CallRule{"aten::add", sum<op::Add>, "x + alpha y"},
    CallRule{"aten::addcdiv", sum_with_quotient, "x + value y / z"},
    CallRule{"aten::addcmul", sum_with_product, "x + value y z"},
    CallRule{"aten::atan", unary<op::Atan>, "Atan"},
    CallRule{"aten::ceil", unary<op::Ceil>, "Ceil"},
    CallRule{"aten::celu", celu, "Celu"},
    CallRule{"aten::clamp", clamp, "Clip"},
    CallRule{"aten::clamp_max", at_most, "Clip"},
    CallRule{"aten::clamp_min", at_least, "Clip"},
    CallRule{"aten::cos", unary<op::Cos>, "Cos"},
    CallRule{"aten::cosh", unary<op::Cosh>, "Cosh"},
    CallRule{"aten::div", quotient, "x / y"},
    CallRule{"aten::elu", elu, "Elu"},
    CallRule{"aten::eq", comparison<op::Equal>, "Equal"},
    CallRule{"aten::erf", unary<op::Erf>, "Erf"},
    CallRule{"aten::exp", unary<op::Exp>, "Exp"},
    CallRule{"aten::floor", unary<op::Floor>, "Floor"},
    CallRule{"aten::ge", comparison<op::GreaterOrEqual>, "GreaterOrEqual"},
    CallRule{"aten::gelu", gelu, "Gelu"},
    CallRule{"aten::glu", glu, "x1 Sigmoid(x2), the halves x1, x2 of an axis"},
    CallRule{"aten::gt", comparison<op::Greater>, "Greater"},
    CallRule{"aten::hardsigmoid", hard_sigmoid, "min(max(x + 3, 0), 6) / 6"},
    CallRule{"aten::hardswish", unary<op::HardSwish>, "HardSwish"},
    CallRule{"aten::hardtanh", hardtanh, "Clip"},
    CallRule{"aten::le", (comparison<op::GreaterOrEqual, true>), "GreaterOrEqual, of y and x"},
    CallRule{"aten::leaky_relu", leaky_relu, "LeakyRelu"},
    CallRule{"aten::log", unary<op::Log>, "Log"},
    CallRule{"aten::log_sigmoid", log_sigmoid, "-Softplus(-x)"},
    CallRule{"aten::log_sigmoid_forward", log_sigmoid, "-Softplus(-x)"},
    CallRule{"aten::lt", (comparison<op::Greater, true>), "Greater, of y and x"},
    CallRule{"aten::maximum", binary<op::Max>, "Max"},
    CallRule{"aten::minimum", binary<op::Min>, "Min"},
    CallRule{"aten::mish", unary<op::Mish>, "Mish"},
    CallRule{"aten::mul", binary<op::Mul>, "x y"},
    CallRule{"aten::neg", unary<op::Neg>, "-x"},
    CallRule{"aten::pow", power, "Pow by a constant"},
    CallRule{"aten::prelu", parametric_relu, "PRelu"},
    CallRule{"aten::reciprocal", unary<op::Reciprocal>, "1 / x"},
    CallRule{"aten::relu", unary<op::Relu>, "Relu"},
    CallRule{"aten::relu6", relu6, "Clip to 0 … 6"},
    CallRule{"aten::round", unary<op::Round>, "Round"},
    CallRule{"aten::rsqrt", reciprocal_root, "1 / Sqrt"},
    CallRule{"aten::rsub", reversed_difference, "y - alpha x"},
    CallRule{"aten::sigmoid", unary<op::Sigmoid>, "Sigmoid"},
    CallRule{"aten::sign", unary<op::Sign>, "Sign"},
    CallRule{"aten::silu", unary<op::Swish>, "x Sigmoid(x)"},
    CallRule{"aten::sin", unary<op::Sin>, "Sin"},
    CallRule{"aten::sinh", unary<op::Sinh>, "Sinh"},
    CallRule{"aten::softplus", softplus, "Softplus"},
    CallRule{"aten::sqrt", unary<op::Sqrt>, "Sqrt"},
    CallRule{"aten::square", square, "x x"},
    CallRule{"aten::sub", sum<op::Sub>, "x - alpha y"},
    CallRule{"aten::tan", unary<op::Tan>, "Tan"},
    CallRule{"aten::tanh", unary<op::Tanh>, "Tanh"},
    CallRule{"c10d::all_reduce", all_reduce,
             "the operands added up in any order; `reduce` mean divides by their number"},
};

}  // namespace

std::span<const CallRule> element_calls() {
  return element_rules;
}

}  // namespace driftbound::calls
