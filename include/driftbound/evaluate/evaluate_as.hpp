#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/evaluate/scalar_functions.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/model/inputs.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/interval.hpp"

namespace driftbound {

/// A type that evaluate_as computes with: default constructible, copyable, constructible from double, with
/// + - * / and unary - that give the type itself (no expression templates), and max and min.
/// An op beyond these asks for its function, found by argument-dependent lookup in the type's namespace and
/// giving the type itself: tanh, sin, cos, exp, erf, sqrt for the ops of these names; exp for Sigmoid and
/// Softmax; exp and log1p for Softplus; expm1 for Elu. Exact types (numeric_limits::is_exact) are taken to lack
/// them all. Comparisons and a Where with a computed condition need < and ==. What is missing matters only to graphs
/// that need it.
template <class Real>
concept EvaluationScalar = scalar::Arithmetic<Real>;

namespace scalar {

/// Has an order, or answers of its own to comparisons that it cannot decide.
template <class Real>
concept Comparable = Ordered<Real> || std::same_as<Real, Interval>;

template <EvaluationScalar Real>
Tensor<Real> converted(const StoredTensor& stored) {
  const Tensor<double> exact = stored.to_double();
  Tensor<Real> result(exact.shape);
  for (std::size_t i = 0; i < exact.size(); ++i) result.values[i] = static_cast<Real>(exact.values[i]);
  return result;
}

/// Applies ops to tensors of any scalar, each sum in index order.
template <EvaluationScalar Real>
class OpEvaluator {
public:
  OpEvaluator(const Node& node, std::vector<const Tensor<Real>*> inputs, const Shape& shape)
      : node_(node), inputs_(std::move(inputs)), shape_(shape) {}

  Tensor<Real> operator()(const op::Gemm& gemm) const {
    Tensor<Real> y = product(plan_product(gemm, inputs_[0]->shape, inputs_[1]->shape));
    if (gemm.alpha != 1.0) {
      for (Real& value : y.values) value = static_cast<Real>(gemm.alpha) * value;
    }
    if (inputs_.size() > 2) {
      const BroadcastIndex index(inputs_[2]->shape, shape_);
      for (std::size_t i = 0; i < y.size(); ++i) {
        y.values[i] = y.values[i] + static_cast<Real>(gemm.beta) * inputs_[2]->values[index(i)];
      }
    }
    return y;
  }
  Tensor<Real> operator()(const op::MatMul& matmul) const {
    return product(plan_product(matmul, inputs_[0]->shape, inputs_[1]->shape));
  }

  Tensor<Real> operator()(const op::Add&) const {
    return pairs([](const Real& a, const Real& b) -> Real { return a + b; });
  }
  Tensor<Real> operator()(const op::Sub&) const {
    return pairs([](const Real& a, const Real& b) -> Real { return a - b; });
  }
  Tensor<Real> operator()(const op::Mul&) const {
    return pairs([](const Real& a, const Real& b) -> Real { return a * b; });
  }
  Tensor<Real> operator()(const op::Div&) const {
    return pairs([](const Real& a, const Real& b) -> Real { return a / b; });
  }

  Tensor<Real> operator()(const op::Neg&) const {
    return elements([](const Real& x) -> Real { return -x; });
  }
  Tensor<Real> operator()(const op::Relu&) const {
    return elements([](const Real& x) { return relu(x); });
  }
  Tensor<Real> operator()(const op::LeakyRelu& leaky) const {
    const Real alpha = static_cast<Real>(leaky.alpha);
    return elements([&](const Real& x) { return leaky_relu(x, alpha); });
  }
  Tensor<Real> operator()(const op::Elu& op) const {
    const Real alpha = static_cast<Real>(op.alpha);
    return function("expm1", [&](const auto& x) -> decltype(elu(x, alpha)) { return elu(x, alpha); });
  }
  Tensor<Real> operator()(const op::Tanh&) const {
    return function("tanh", [](const auto& x) -> decltype(tanh(x)) { return tanh(x); });
  }
  Tensor<Real> operator()(const op::Sigmoid&) const {
    return function("exp", [](const auto& x) -> decltype(scalar::sigmoid(x)) { return scalar::sigmoid(x); });
  }
  Tensor<Real> operator()(const op::Softplus&) const {
    return function("exp and log1p",
                    [](const auto& x) -> decltype(scalar::softplus(x)) { return scalar::softplus(x); });
  }
  Tensor<Real> operator()(const op::Sin&) const {
    return function("sin", [](const auto& x) -> decltype(sin(x)) { return sin(x); });
  }
  Tensor<Real> operator()(const op::Cos&) const {
    return function("cos", [](const auto& x) -> decltype(cos(x)) { return cos(x); });
  }
  Tensor<Real> operator()(const op::Exp&) const {
    return function("exp", [](const auto& x) -> decltype(exp(x)) { return exp(x); });
  }
  Tensor<Real> operator()(const op::Erf&) const {
    return function("erf", [](const auto& x) -> decltype(erf(x)) { return erf(x); });
  }
  Tensor<Real> operator()(const op::Sqrt&) const {
    return function("sqrt", [](const auto& x) -> decltype(sqrt(x)) { return sqrt(x); });
  }

  Tensor<Real> operator()(const op::Abs&) const {
    return elements([](const Real& x) -> Real { return absolute(x); });
  }
  Tensor<Real> operator()(const op::Reciprocal&) const {
    return elements([](const Real& x) -> Real { return scalar::reciprocal(x); });
  }
  Tensor<Real> operator()(const op::Log&) const {
    return function("log", [](const auto& x) -> decltype(log(x)) { return log(x); });
  }
  Tensor<Real> operator()(const op::Tan&) const {
    return function("tan", [](const auto& x) -> decltype(tan(x)) { return tan(x); });
  }
  Tensor<Real> operator()(const op::Atan&) const {
    return function("atan", [](const auto& x) -> decltype(atan(x)) { return atan(x); });
  }
  Tensor<Real> operator()(const op::Sinh&) const {
    return function("sinh", [](const auto& x) -> decltype(sinh(x)) { return sinh(x); });
  }
  Tensor<Real> operator()(const op::Cosh&) const {
    return function("cosh", [](const auto& x) -> decltype(cosh(x)) { return cosh(x); });
  }
  Tensor<Real> operator()(const op::Floor&) const {
    return function("floor", [](const auto& x) -> decltype(floor(x)) { return floor(x); });
  }
  Tensor<Real> operator()(const op::Ceil&) const {
    return function("ceil", [](const auto& x) -> decltype(ceil(x)) { return ceil(x); });
  }
  Tensor<Real> operator()(const op::Round&) const {
    return function("rint", [](const auto& x) -> decltype(rint(x)) { return rint(x); });
  }
  Tensor<Real> operator()(const op::Sign&) const {
    return function("<", [](const auto& x) -> decltype(scalar::sign(x)) { return scalar::sign(x); });
  }
  Tensor<Real> operator()(const op::Pow& power) const {
    const double p = power.exponent;
    return function("pow", [p](const auto& x) -> decltype(scalar::power(x, p)) { return scalar::power(x, p); });
  }
  Tensor<Real> operator()(const op::Clip& clip) const {
    return elements([&](const Real& x) -> Real {
      const Real raised = std::isfinite(clip.least) ? Real(max(x, Real(clip.least))) : x;
      return std::isfinite(clip.most) ? Real(min(raised, Real(clip.most))) : raised;
    });
  }
  Tensor<Real> operator()(const op::ThresholdedRelu& relu) const {
    const Real alpha = static_cast<Real>(relu.alpha);
    return function("<", [&alpha](const auto& x) -> decltype(scalar::thresholded_relu(x, alpha)) {
      return scalar::thresholded_relu(x, alpha);
    });
  }
  Tensor<Real> operator()(const op::Min&) const {
    return pairs([](const Real& a, const Real& b) -> Real { return min(a, b); });
  }
  Tensor<Real> operator()(const op::Max&) const {
    return pairs([](const Real& a, const Real& b) -> Real { return max(a, b); });
  }
  Tensor<Real> operator()(const op::PRelu&) const {
    return pairs(
        [](const Real& x, const Real& slope) -> Real { return max(x, Real(0.0)) + slope * Real(min(x, Real(0.0))); });
  }

  Tensor<Real> operator()(const op::Greater&) const {
    return compared([](const auto& a, const auto& b) { return scalar::greater(a, b); });
  }
  Tensor<Real> operator()(const op::GreaterOrEqual&) const {
    return compared([](const auto& a, const auto& b) { return scalar::greater_or_equal(a, b); });
  }
  Tensor<Real> operator()(const op::Equal&) const {
    return compared([](const auto& a, const auto& b) { return scalar::equal(a, b); });
  }

  Tensor<Real> operator()(const op::Choice&) const {
    if constexpr (Comparable<Real>) {
      const BroadcastIndex in_c(inputs_[0]->shape, shape_), in_a(inputs_[1]->shape, shape_);
      const BroadcastIndex in_b(inputs_[2]->shape, shape_);
      Tensor<Real> y(shape_);
      for (std::size_t i = 0; i < y.size(); ++i) {
        y.values[i] =
            scalar::choice(inputs_[0]->values[in_c(i)], inputs_[1]->values[in_a(i)], inputs_[2]->values[in_b(i)]);
      }
      return y;
    } else {
      refuse("<");
    }
  }

  Tensor<Real> operator()(const op::ReduceSum&) const {
    return groups([](const Real& a, const Real& b) -> Real { return a + b; }, Real(0.0));
  }
  Tensor<Real> operator()(const op::ReduceMax&) const {
    return groups([](const Real& a, const Real& b) -> Real { return max(a, b); }, std::nullopt);
  }
  Tensor<Real> operator()(const op::ReduceMin&) const {
    return groups([](const Real& a, const Real& b) -> Real { return min(a, b); }, std::nullopt);
  }

  Tensor<Real> operator()(const op::Softmax& op) const {
    if constexpr (HasExp<Real>) {
      const ReductionPlan plan = plan_reduction(op, inputs_[0]->shape);
      Tensor<Real> y(shape_);
      std::vector<Real> group(static_cast<std::size_t>(plan.length));
      for (std::int64_t o = 0; o < plan.outer; ++o) {
        for (std::int64_t i = 0; i < plan.inner; ++i) {
          for (std::int64_t j = 0; j < plan.length; ++j) {
            group[static_cast<std::size_t>(j)] = inputs_[0]->values[plan.index(o, j, i)];
          }
          scalar::softmax(group);
          for (std::int64_t j = 0; j < plan.length; ++j) {
            y.values[plan.index(o, j, i)] = group[static_cast<std::size_t>(j)];
          }
        }
      }
      return y;
    } else {
      refuse("exp");
    }
  }

  Tensor<Real> operator()(const Selection auto&) const { return select<Real>(node_.op, inputs_, shape_); }

  Tensor<Real> operator()(const Composite auto&) const {
    std::vector<Shape> shapes;
    for (const Tensor<Real>* input : inputs_) shapes.push_back(input->shape);
    const Graph body = composite_body(node_.op, shapes);
    const std::vector<Shape> inner = infer_shapes(body, shapes);
    std::vector<Tensor<Real>> values(body.values.size());
    for (std::size_t slot = 0; slot < inputs_.size(); ++slot) values[body.inputs[slot]] = *inputs_[slot];
    for (ValueId id = 0; id < values.size(); ++id) {
      if (body.is_constant(id)) values[id] = converted<Real>(body.value(id).constant);
    }
    for (const Node& part : body.nodes) {
      std::vector<const Tensor<Real>*> operands;
      for (const ValueId id : part.inputs) operands.push_back(&values[id]);
      values[part.output] = std::visit(OpEvaluator<Real>(part, std::move(operands), inner[part.output]), part.op);
    }
    return std::move(values[body.outputs.front()]);
  }

  Tensor<Real> operator()(const op::Cast&) const { return *inputs_[0]; }

private:
  Tensor<Real> product(const ProductPlan& plan) const {
    Tensor<Real> y(shape_);
    std::size_t next = 0;
    for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
      for (std::int64_t i = 0; i < plan.m; ++i) {
        for (std::int64_t j = 0; j < plan.n; ++j) {
          Real sum = term(plan, batch, i, j, 0);
          for (std::int64_t k = 1; k < plan.k; ++k) sum = sum + term(plan, batch, i, j, k);
          y.values[next++] = sum;
        }
      }
    }
    return y;
  }
  Real term(const ProductPlan& plan, std::int64_t batch, std::int64_t i, std::int64_t j, std::int64_t k) const {
    return inputs_[0]->values[plan.a_index(batch, i, k)] * inputs_[1]->values[plan.b_index(batch, k, j)];
  }

  template <class F>
  Tensor<Real> pairs(F f) const {
    const BroadcastIndex in_a(inputs_[0]->shape, shape_), in_b(inputs_[1]->shape, shape_);
    Tensor<Real> y(shape_);
    for (std::size_t i = 0; i < y.size(); ++i) {
      y.values[i] = f(inputs_[0]->values[in_a(i)], inputs_[1]->values[in_b(i)]);
    }
    return y;
  }

  template <class F>
  Tensor<Real> compared(F f) const {
    if constexpr (Comparable<Real>) {
      return pairs(f);
    } else {
      refuse("<");
    }
  }

  /// Joins the terms of every group from the left; `none` is the value of no terms, where there is one.
  template <class F>
  Tensor<Real> groups(F join, const std::optional<Real>& none) const {
    const GroupPlan plan = plan_groups(node_.op, inputs_[0]->shape);
    Tensor<Real> y(shape_);
    for (std::size_t g = 0; g < y.size(); ++g) {
      std::optional<Real> result = plan.elements.empty() ? none : std::nullopt;
      for (const std::size_t element : plan.elements) {
        const Real& term = inputs_[0]->values[plan.groups[g] + element];
        result = result ? join(*result, term) : term;
      }
      y.values[g] = result.value();
    }
    return y;
  }

  template <class F>
  Tensor<Real> elements(F f) const {
    Tensor<Real> y(shape_);
    for (std::size_t i = 0; i < y.size(); ++i) y.values[i] = f(inputs_[0]->values[i]);
    return y;
  }

  template <class F>
  Tensor<Real> function(const char* name, F f) const {
    if constexpr (!Inexact<Real>) {
      refuse(name);
    } else if constexpr (requires(const Real& x) {
                           { f(x) } -> std::same_as<Real>;
                         }) {
      return elements(f);
    } else {
      refuse(name);
    }
  }

  [[noreturn]] void refuse(const std::string& function) const {
    throw Unsupported("node '" + node_.name + "' (" + std::string(name_of(node_.op)) + "): the scalar type has no " +
                      function + " that gives the type itself; declare it in the type's namespace");
  }

  const Node& node_;
  std::vector<const Tensor<Real>*> inputs_;
  const Shape& shape_;
};

/// All constants, by ValueId.
template <EvaluationScalar Real>
std::vector<Tensor<Real>> constants_of(const Graph& graph) {
  std::vector<Tensor<Real>> constants(graph.values.size());
  for (ValueId id = 0; id < graph.values.size(); ++id)
    if (graph.is_constant(id)) constants[id] = converted<Real>(graph.value(id).constant);
  return constants;
}

/// Outputs of all nodes for one evaluation; `values` holds the constants and the inputs.
template <EvaluationScalar Real>
std::vector<Tensor<Real>> evaluate_once(const Graph& graph, std::vector<Tensor<Real>> values) {
  std::vector<Shape> input_shapes;
  for (const ValueId id : graph.inputs) input_shapes.push_back(values[id].shape);
  const std::vector<Shape> shapes = infer_shapes(graph, input_shapes);
  std::vector<Tensor<Real>> outputs;
  for (const Node& node : graph.nodes) {
    std::vector<const Tensor<Real>*> operands;
    for (const ValueId id : node.inputs) operands.push_back(&values[id]);
    values[node.output] = std::visit(OpEvaluator<Real>(node, std::move(operands), shapes[node.output]), node.op);
    outputs.push_back(values[node.output]);
  }
  return outputs;
}

/// The same for given inputs; `values` holds the constants.
template <EvaluationScalar Real>
std::vector<Tensor<Real>> evaluate_once(const Graph& graph, std::vector<Tensor<Real>> values, const Inputs& inputs) {
  for (const ValueId id : graph.inputs) values[id] = converted<Real>(inputs.at(graph.value(id).name));
  return evaluate_once<Real>(graph, std::move(values));
}

}  // namespace scalar

/// The graph over any scalar: the output of every node, in graph order, with the formulas of model/ops.hpp.
/// Constants, attributes and inputs enter as the exact numbers they are (Real(double)); a Cast is the identity;
/// sums run in index order; a bias is added last.
/// Shapes:    as in a Trace: axis 0 counts samples where the node depends on an input
/// Domain:    inputs that fit the model; where a run rounded its inputs, give used_inputs(graph, trace)
/// Guarantee: that of the scalar's operations. Real = Interval: every output encloses the exact function's value.
///            Real = double: no statement. A multi-precision type: no statement, but as accurate as it is precise.
/// Tightness: Interval: that of interval arithmetic in forward order; each op alone is as tight as its range
/// Throws:    Unsupported naming the node whose function the scalar type lacks, or that mixes the rows of the inputs
///            (sample_count); ShapeMismatch; InvalidArgument; Real = Interval: UnsoundEnvironment
template <EvaluationScalar Real>
std::vector<Tensor<Real>> evaluate_as(const Graph& graph, const Inputs& inputs) {
  if constexpr (std::same_as<Real, Interval>) require_sound_environment();
  validate(graph);
  const BatchLayout layout = batch_layout(graph);
  const std::int64_t samples = sample_count(graph, layout, inputs);
  std::vector<Tensor<Real>> constants = scalar::constants_of<Real>(graph);
  if (layout.batched) {
    return scalar::evaluate_once<Real>(graph, std::move(constants), slice(graph, layout, inputs, 0, samples));
  }
  const std::vector<bool> depends = depends_on_input(graph);
  std::vector<Tensor<Real>> all;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    std::vector<Tensor<Real>> one =
        scalar::evaluate_once<Real>(graph, constants, slice(graph, layout, inputs, sample, 1));
    if (sample == 0) all.resize(one.size());
    for (std::size_t node = 0; node < one.size(); ++node) {
      Shape shape = one[node].shape;
      const bool stacked = depends[graph.nodes[node].output];
      if (stacked) shape.insert(shape.begin(), samples);
      all[node].shape = std::move(shape);
      if (stacked || sample == 0) {
        all[node].values.insert(all[node].values.end(), one[node].values.begin(), one[node].values.end());
      }
    }
  }
  return all;
}

}  // namespace driftbound
