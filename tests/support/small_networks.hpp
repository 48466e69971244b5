#pragma once

#include <cmath>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "driftbound/model/layout.hpp"
#include "support/bound_checks.hpp"

/// Small random networks of every op, interpreted naively in float and in 700 bits.
namespace checks {

/// float functions by way of double: within 1.001 (u |f| + eta) of the truth.
constexpr double units_of_float_functions = 1.001;

template <class S>
struct Scalar;

template <>
struct Scalar<float> {
  template <class F>
  static float through_double(float x, const F& f) {
    return static_cast<float>(f(static_cast<double>(x)));
  }
  static float tanh(float x) {
    return through_double(x, [](double t) { return std::tanh(t); });
  }
  static float sin(float x) {
    return through_double(x, [](double t) { return std::sin(t); });
  }
  static float cos(float x) {
    return through_double(x, [](double t) { return std::cos(t); });
  }
  static float exp(float x) {
    return through_double(x, [](double t) { return std::exp(t); });
  }
  static float expm1(float x) {
    return through_double(x, [](double t) { return std::expm1(t); });
  }
  static float erf(float x) {
    return through_double(x, [](double t) { return std::erf(t); });
  }
  static float sqrt(float x) { return std::sqrt(x); }
  static float sigmoid(float x) {
    return through_double(x, [](double t) { return 1.0 / (1.0 + std::exp(-t)); });
  }
  static float softplus(float x) {
    return through_double(x, [](double t) { return std::fmax(t, 0.0) + std::log1p(std::exp(-std::fabs(t))); });
  }
  static float constant(double x) { return static_cast<float>(x); }
};

template <>
struct Scalar<Real> {
  static Real tanh(const Real& x) { return x.apply(mpfr_tanh); }
  static Real sin(const Real& x) { return x.apply(mpfr_sin); }
  static Real cos(const Real& x) { return x.apply(mpfr_cos); }
  static Real exp(const Real& x) { return x.apply(mpfr_exp); }
  static Real expm1(const Real& x) { return x.apply(mpfr_expm1); }
  static Real erf(const Real& x) { return x.apply(mpfr_erf); }
  static Real sqrt(const Real& x) { return x.apply(mpfr_sqrt); }
  static Real sigmoid(const Real& x) { return Real(1.0) / (Real(1.0) + exp(-x)); }
  static Real softplus(const Real& x) { return exp(x).apply(mpfr_log1p); }
  static Real constant(double x) { return Real(x); }
};

template <class S>
using Operands = std::vector<const Tensor<S>*>;

inline float dot(const SummationOrder& order, const std::vector<float>& a, const std::vector<float>& b) {
  return naive::dot(order, a, b);
}
inline Real dot(const SummationOrder&, const std::vector<Real>& a, const std::vector<Real>& b) {
  Real sum;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

template <class S>
Tensor<S> product(const ProductPlan& plan, const Operands<S>& in, const Shape& shape, const SummationOrder& order) {
  Tensor<S> result(shape);
  std::size_t at = 0;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      for (std::int64_t j = 0; j < plan.n; ++j) {
        std::vector<S> a, b;
        for (std::int64_t k = 0; k < plan.k; ++k) {
          a.push_back(in[0]->values[plan.a_index(batch, i, k)]);
          b.push_back(in[1]->values[plan.b_index(batch, k, j)]);
        }
        result.values[at++] = dot(order, a, b);
      }
    }
  }
  return result;
}

template <class S>
Tensor<S> gemm(const op::Gemm& op, const Operands<S>& in, const Shape& shape, const SummationOrder& order) {
  Tensor<S> result = product(plan_product(op, in[0]->shape, in[1]->shape), in, shape, order);
  const S alpha = Scalar<S>::constant(op.alpha), beta = Scalar<S>::constant(op.beta);
  for (std::size_t i = 0; i < result.size(); ++i) {
    result.values[i] = alpha * result.values[i];
    if (in.size() < 3) continue;
    const S addend = beta * in[2]->values[BroadcastIndex(in[2]->shape, shape)(i)];
    result.values[i] = result.values[i] + addend;
  }
  return result;
}

template <class S, class F>
Tensor<S> unary(const Operands<S>& in, const F& f) {
  Tensor<S> result(in[0]->shape);
  for (std::size_t i = 0; i < result.size(); ++i) result.values[i] = f(in[0]->values[i]);
  return result;
}

template <class S, class F>
Tensor<S> binary(const Operands<S>& in, const Shape& shape, const F& f) {
  const BroadcastIndex a(in[0]->shape, shape), b(in[1]->shape, shape);
  Tensor<S> result(shape);
  for (std::size_t i = 0; i < result.size(); ++i) result.values[i] = f(in[0]->values[a(i)], in[1]->values[b(i)]);
  return result;
}

template <class S>
Tensor<S> softmax(const op::Softmax& op, const Operands<S>& in, const Shape& shape, SummationOrder order) {
  order.fma = false;
  const ReductionPlan plan = plan_reduction(op, shape);
  Tensor<S> result(shape);
  for (std::int64_t o = 0; o < plan.outer; ++o) {
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      S largest = in[0]->values[plan.index(o, 0, i)];
      for (std::int64_t j = 1; j < plan.length; ++j) {
        const S& x = in[0]->values[plan.index(o, j, i)];
        if (largest < x) largest = x;
      }
      std::vector<S> terms, ones;
      for (std::int64_t j = 0; j < plan.length; ++j) {
        terms.push_back(Scalar<S>::exp(in[0]->values[plan.index(o, j, i)] - largest));
        ones.push_back(Scalar<S>::constant(1.0));
      }
      const S sum = dot(order, terms, ones);
      for (std::int64_t j = 0; j < plan.length; ++j) {
        result.values[plan.index(o, j, i)] = terms[static_cast<std::size_t>(j)] / sum;
      }
    }
  }
  return result;
}

template <class S>
Tensor<S> reduce_max(const Op& op, const Operands<S>& in, const Shape& shape) {
  const GroupPlan plan = plan_groups(op, in[0]->shape);
  Tensor<S> result(shape);
  for (std::size_t g = 0; g < result.size(); ++g) {
    S& largest = result.values[g];
    largest = in[0]->values[plan.groups[g] + plan.elements[0]];
    for (const std::size_t element : plan.elements) {
      const S& x = in[0]->values[plan.groups[g] + element];
      if (largest < x) largest = x;
    }
  }
  return result;
}

template <class S>
Tensor<S> reduce_sum(const Op& op, const Operands<S>& in, const Shape& shape, const SummationOrder& order) {
  const GroupPlan plan = plan_groups(op, in[0]->shape);
  Tensor<S> result(shape);
  for (std::size_t g = 0; g < result.size(); ++g) {
    std::vector<S> terms;
    for (const std::size_t element : plan.elements) terms.push_back(in[0]->values[plan.groups[g] + element]);
    result.values[g] = dot(order, terms, std::vector<S>(terms.size(), Scalar<S>::constant(1.0)));
  }
  return result;
}

template <class S>
Tensor<S> apply(const Op& op, const Operands<S>& in, const Shape& shape, const SummationOrder& order) {
  using F = Scalar<S>;
  const S zero = F::constant(0.0);
  if (const auto* node = std::get_if<op::Gemm>(&op)) return gemm(*node, in, shape, order);
  if (const auto* node = std::get_if<op::MatMul>(&op)) {
    return product(plan_product(*node, in[0]->shape, in[1]->shape), in, shape, order);
  }
  if (const auto* node = std::get_if<op::Softmax>(&op)) return softmax(*node, in, shape, order);
  if (std::get_if<op::Add>(&op)) return binary(in, shape, [](const S& a, const S& b) { return S(a + b); });
  if (std::get_if<op::Sub>(&op)) return binary(in, shape, [](const S& a, const S& b) { return S(a - b); });
  if (std::get_if<op::Mul>(&op)) return binary(in, shape, [](const S& a, const S& b) { return S(a * b); });
  if (std::get_if<op::Div>(&op)) return binary(in, shape, [](const S& a, const S& b) { return S(a / b); });
  if (std::get_if<op::Max>(&op)) return binary(in, shape, [](const S& a, const S& b) { return a < b ? b : a; });
  if (std::get_if<op::PRelu>(&op))
    return binary(in, shape, [](const S& a, const S& b) { return a < S(0.0) ? S(a * b) : a; });
  if (std::get_if<op::Min>(&op)) return binary(in, shape, [](const S& a, const S& b) { return b < a ? b : a; });
  if (std::get_if<op::ReduceSum>(&op)) return reduce_sum(op, in, shape, order);
  if (std::get_if<op::ReduceMax>(&op)) return reduce_max(op, in, shape);
  if (std::get_if<op::Neg>(&op)) return unary(in, [](const S& x) { return S(-x); });
  if (std::get_if<op::Relu>(&op)) return unary(in, [&](const S& x) { return x < zero ? zero : x; });
  if (const auto* node = std::get_if<op::LeakyRelu>(&op)) {
    const S alpha = F::constant(node->alpha);
    return unary(in, [&](const S& x) { return x < zero ? S(alpha * x) : x; });
  }
  if (const auto* node = std::get_if<op::Elu>(&op)) {
    const S alpha = F::constant(node->alpha);
    return unary(in, [&](const S& x) { return x < zero ? S(alpha * F::expm1(x)) : x; });
  }
  if (std::get_if<op::Tanh>(&op)) return unary(in, F::tanh);
  if (std::get_if<op::Sigmoid>(&op)) return unary(in, F::sigmoid);
  if (std::get_if<op::Softplus>(&op)) return unary(in, F::softplus);
  if (std::get_if<op::Sin>(&op)) return unary(in, F::sin);
  if (std::get_if<op::Cos>(&op)) return unary(in, F::cos);
  if (std::get_if<op::Exp>(&op)) return unary(in, F::exp);
  if (std::get_if<op::Erf>(&op)) return unary(in, F::erf);
  if (std::get_if<op::Sqrt>(&op)) return unary(in, F::sqrt);
  if (std::get_if<op::Cast>(&op)) {
    return unary(in, [](const S& x) {
      if constexpr (std::is_same_v<S, float>) return naive::as_fp16(x);
      return x;
    });
  }
  return driftbound::select<S>(op, in, shape);
}

/// A network over one input [2, 4] of float32, grown block by block.
class NetworkBuilder {
public:
  /// With an open axis the samples are not counted, and "attention" and "reshape" make no network.
  explicit NetworkBuilder(Generator& generator, bool is_open = false) : generator_(generator) {
    const DeclaredDimension samples = is_open ? DeclaredDimension{-1, "N"} : DeclaredDimension{rows, ""};
    value_ = graph_.add_input("x", ElementType::f32, {samples, {4, ""}});
  }

  static constexpr std::int64_t rows = 2;
  /// Those that any network may have. add() knows more: weights computed from constants, and extrema.
  static const std::vector<std::string>& blocks() {
    static const std::vector<std::string> names = {
        "gemm",     "gemm-scaled", "matmul", "attention", "relu",   "leaky-relu", "elu", "tanh", "sigmoid",
        "softplus", "sin",         "cos",    "exp",       "erf",    "sqrt",       "div", "mul",  "square",
        "sub",      "add",         "neg",    "softmax",   "concat", "reshape",    "cast"};
    return names;
  }

  void add(const std::string& block) {
    const ValueId x = value_;
    if (block == "gemm")
      value_ = node(op::Gemm{}, {x, constant({width_, width_}, 1.0), constant({width_}, 0.5)});
    else if (block == "gemm-scaled") {
      value_ = node(op::Gemm{0.7, 0.3, false, true}, {x, constant({width_, width_}, 1.0), constant({width_}, 0.5)});
    } else if (block == "matmul")
      value_ = node(op::MatMul{}, {x, constant({width_, width_}, 1.0)});
    else if (block == "attention") {
      const ValueId scores = node(op::MatMul{}, {x, node(op::Transpose{{1, 0}}, {x})});
      value_ = node(op::MatMul{}, {node(op::Softmax{}, {scores}), x});
    } else if (block == "relu")
      value_ = node(op::Relu{}, {x});
    else if (block == "leaky-relu")
      value_ = node(op::LeakyRelu{0.1}, {x});
    else if (block == "elu")
      value_ = node(op::Elu{0.8}, {x});
    else if (block == "tanh")
      value_ = node(op::Tanh{}, {x});
    else if (block == "sigmoid")
      value_ = node(op::Sigmoid{}, {x});
    else if (block == "softplus")
      value_ = node(op::Softplus{}, {x});
    else if (block == "sin")
      value_ = node(op::Sin{}, {x});
    else if (block == "cos")
      value_ = node(op::Cos{}, {x});
    else if (block == "exp")
      value_ = node(op::Exp{}, {node(op::Tanh{}, {x})});
    else if (block == "erf")
      value_ = node(op::Erf{}, {x});
    else if (block == "sqrt")
      value_ = node(op::Sqrt{}, {node(op::Softplus{}, {x})});
    else if (block == "div")
      value_ = node(op::Div{}, {x, node(op::Add{}, {node(op::Sigmoid{}, {x}), constant({1}, 0.5)})});
    else if (block == "mul")
      value_ = node(op::Mul{}, {x, node(op::Sin{}, {x})});
    else if (block == "square")
      value_ = node(op::Tanh{}, {node(op::Mul{}, {x, x})});
    else if (block == "sub")
      value_ = node(op::Sub{}, {node(op::Cos{}, {x}), x});
    else if (block == "add")
      value_ = node(op::Add{}, {x, constant({width_}, 1.0)});
    else if (block == "neg")
      value_ = node(op::Neg{}, {x});
    else if (block == "softmax")
      value_ = node(op::Softmax{}, {x});
    else if (block == "concat") {
      const ValueId wide = node(op::Concat{1}, {x, node(op::Identity{}, {x})});
      value_ = node(op::MatMul{}, {wide, constant({2 * width_, width_}, 1.0)});
    } else if (block == "reshape")
      value_ = node(op::Reshape{{rows, width_}, false}, {node(op::Unsqueeze{{1}}, {x})});
    else if (block == "mul-computed")
      value_ = node(op::Mul{}, {x, computed_constant({width_})});
    else if (block == "matmul-computed")
      value_ = node(op::MatMul{}, {x, computed_constant({width_, width_})});
    else if (block == "reduce-max")
      value_ = node(op::ReduceMax{{1}, true}, {x});
    else if (block == "max")
      value_ = node(op::Max{}, {x, node(op::Neg{}, {x})});
    else if (block == "min")
      value_ = node(op::Min{}, {x, node(op::Neg{}, {x})});
    else if (block == "max-constant")
      value_ = node(op::Max{}, {x, constant({width_}, 1.0)});
    else if (block == "min-constant")
      value_ = node(op::Min{}, {x, constant({width_}, 1.0)});
    else if (block == "cast")
      value_ = node(op::Cast{ElementType::f16}, {node(op::Tanh{}, {x})});
    else
      throw std::invalid_argument("no block " + block);
  }

  Graph finish() {
    graph_.outputs = {value_};
    return graph_;
  }

private:
  ValueId constant(const Shape& shape, double scale) {
    Tensor<float> values(shape);
    for (float& value : values.values) value = static_cast<float>(uniform(generator_, -scale, scale));
    if (shape == Shape{1}) values.values[0] = static_cast<float>(scale);
    return graph_.add_constant("c" + std::to_string(++constants_), StoredTensor::from(values));
  }
  /// Weights with errors of many units: e^c with a c that takes two roundings.
  ValueId computed_constant(const Shape& shape) {
    Tensor<double> values(shape);
    for (double& value : values.values) value = uniform(generator_, -1.0, 1.0);
    const ValueId c = graph_.add_constant("c" + std::to_string(++constants_), StoredTensor::from(values));
    return node(op::Exp{}, {node(op::Mul{}, {c, constant({1}, 7.3)})});
  }
  ValueId node(const Op& op, const std::vector<ValueId>& inputs) {
    return graph_.add_node("n" + std::to_string(++nodes_), op, inputs);
  }

  Generator& generator_;
  Graph graph_;
  ValueId value_ = 0;
  std::int64_t width_ = 4;
  int constants_ = 0, nodes_ = 0;
};

inline ArithmeticModel float_arithmetic(const SummationOrder& order) {
  ArithmeticModel arithmetic = cpu_arithmetic("fp32", order);
  for (FunctionAccuracy& entry : arithmetic.functions) {
    entry = {entry.function, units_of_float_functions, Evidence::measured, "double libm, rounded"};
    if (entry.function == "sqrt") entry = {"sqrt", 1.0, Evidence::documented, "IEEE 754"};
  }
  return arithmetic;
}

template <class T, class S>
Tensor<T> convert(const Tensor<S>& tensor) {
  Tensor<T> result(tensor.shape);
  for (std::size_t i = 0; i < tensor.size(); ++i) result.values[i] = static_cast<T>(tensor.values[i]);
  return result;
}

/// Evaluates a network in float, and holds every local and every forward bound against the truth.
/// `given` may be finer than float32: the run then uses it rounded.
inline Tallies check_network(const Graph& graph, const Tensor<double>& given, const SummationOrder& order) {
  const std::vector<Shape> shapes = infer_shapes(graph, {given.shape});
  std::vector<Tensor<float>> computed(graph.values.size());
  std::vector<Tensor<Real>> exact(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (!graph.is_constant(id)) continue;
    computed[id] = convert<float>(graph.value(id).constant.to_double());
    exact[id] = convert<Real>(graph.value(id).constant.to_double());
  }
  computed[graph.inputs[0]] = convert<float>(given);
  exact[graph.inputs[0]] = convert<Real>(given);
  Trace trace;
  trace.inputs.tensors.emplace_back(graph.value(graph.inputs[0]).name, StoredTensor::from(given));
  trace.arithmetic = float_arithmetic(order);
  trace.samples = given.shape[0];
  std::vector<Tensor<Real>> local;
  for (const Node& node : graph.nodes) {
    Operands<float> used;
    Operands<Real> true_inputs, recorded_inputs;
    std::vector<Tensor<Real>> recorded;
    for (const ValueId id : node.inputs) recorded.push_back(convert<Real>(computed[id]));
    for (std::size_t slot = 0; slot < node.inputs.size(); ++slot) {
      used.push_back(&computed[node.inputs[slot]]);
      true_inputs.push_back(&exact[node.inputs[slot]]);
      recorded_inputs.push_back(&recorded[slot]);
    }
    computed[node.output] = apply(node.op, used, shapes[node.output], order);
    exact[node.output] = apply(node.op, true_inputs, shapes[node.output], order);
    local.push_back(apply(node.op, recorded_inputs, shapes[node.output], order));
    trace.layers.push_back({node.name, StoredTensor::from(computed[node.output])});
  }
  BoundOptions options;
  const Bounds result = bound(graph, trace, options);
  Tallies tallies;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ValueId id = graph.nodes[n].output;
    LayerBounds only_local = result.layers[n], only_forward = result.layers[n];
    only_local.accumulated.clear();
    only_forward.local.clear();
    for (std::size_t i = 0; i < computed[id].size(); ++i) {
      const auto y = static_cast<double>(computed[id].values[i]);
      if (!std::isfinite(y)) continue;
      tallies.add(only_local, i, y, local[n].values[i]);
      tallies.add(only_forward, i, y, exact[id].values[i]);
    }
  }
  return tallies;
}

/// Inputs [2, 4] of one scale, given in double or in float32.
inline Tensor<double> network_inputs(double scale, bool given_in_double, Generator& generator) {
  Tensor<double> given({NetworkBuilder::rows, 4});
  for (double& value : given.values) {
    value = uniform(generator, -scale, scale);
    if (!given_in_double) value = static_cast<double>(static_cast<float>(value));
  }
  return given;
}

/// Networks of the blocks named, in that order, over inputs of many scales.
inline Tallies check_blocks(const std::vector<std::string>& blocks, int repetitions, std::uint64_t seed) {
  Generator generator(seed);
  const std::vector<SummationOrder> orders = declared_orders();
  Tallies tallies;
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    NetworkBuilder builder(generator);
    for (const std::string& block : blocks) builder.add(block);
    const Graph graph = builder.finish();
    for (const double scale : {1.0, 8.0, 1e-3, 1e-38}) {
      tallies += check_network(graph, network_inputs(scale, repetition % 2 == 1, generator),
                               orders[generator() % orders.size()]);
    }
  }
  return tallies;
}

}  // namespace checks
