#include "soundness/worst_roundings.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::soundness {
namespace {

/// Rounds as far off as to nearest may, up (+1), down (-1) or not at all (0).
class Rounding {
public:
  Rounding() = default;
  Rounding(double unit, double towards) : u_(unit), direction_(towards) {}

  /// Of a number of the format and the exact product of a fused step.
  double of_step(double sum, double product) const {
    return sum + product + direction_ * std::min(most(sum + product), std::abs(product));
  }
  /// Of two numbers of the format, either of which the sum might be rounded to.
  double of_sum(double a, double b) const {
    return a + b + direction_ * std::min({most(a + b), std::abs(a), std::abs(b)});
  }
  bool is_upwards() const { return direction_ > 0.0; }

private:
  /// u ufp(t), and not beyond the powers of two on both sides of t.
  double most(double t) const {
    if (t == 0.0) return 0.0;
    const double below = std::ldexp(1.0, std::ilogb(t)), above = 2.0 * below;
    return std::min({u_ * below, std::abs(t) - below, above - std::abs(t)});
  }

  double u_ = 0.0, direction_ = 0.0;
};

double added_up(const std::vector<double>& first, const std::vector<double>& then, const Rounding& rounding) {
  double sum = 0.0;
  bool is_empty = true;
  const auto add = [&](double product) {
    sum = is_empty ? product : rounding.of_step(sum, product);
    is_empty = false;
  };
  std::for_each(first.begin(), first.end(), add);
  std::for_each(then.rbegin(), then.rend(), add);
  return sum;
}

double worst_sum(const std::vector<double>& terms, const Rounding& rounding) {
  std::vector<double> positive, negative;
  for (const double term : terms)
    if (term != 0.0) (term > 0.0 ? positive : negative).push_back(term);
  std::sort(positive.begin(), positive.end(), std::greater<>());
  std::sort(negative.begin(), negative.end());
  const double one = added_up(positive, negative, rounding), other = added_up(negative, positive, rounding);
  return (one > other) == rounding.is_upwards() ? one : other;
}

double function_of(const Op& op, double x) {
  if (std::holds_alternative<op::Relu>(op)) return std::max(x, 0.0);
  if (std::holds_alternative<op::Softplus>(op)) return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
  if (std::holds_alternative<op::Sin>(op)) return std::sin(x);
  return std::tanh(x);
}

double slope_of(const Op& op, double x) {
  if (std::holds_alternative<op::Relu>(op)) return x > 0.0 ? 1.0 : 0.0;
  if (std::holds_alternative<op::Softplus>(op)) return 1.0 / (1.0 + std::exp(-x));
  if (std::holds_alternative<op::Sin>(op)) return std::cos(x);
  return 1.0 - std::tanh(x) * std::tanh(x);
}

class Runs {
public:
  Runs(const Graph& graph, const std::vector<double>& input, double u) : graph_(graph), u_(u) {
    constants_.resize(graph.values.size());
    for (ValueId id = 0; id < graph.values.size(); ++id)
      if (graph.is_constant(id)) constants_[id] = graph.value(id).constant.to_double();
    exact_ = run(input, nullptr, 0.0);
  }

  double error(const std::vector<double>& input, const Target& target, double direction) const {
    const std::vector<std::vector<double>> d = adjoint(target);
    return value_of(target, run(input, &d, direction)) - value_of(target, exact_);
  }

private:
  using Values = std::vector<std::vector<double>>;

  double value_of(const Target& target, const Values& values) const {
    const auto at = [&](const OutputElement& e) {
      return values[graph_.outputs.at(e.output)].at(static_cast<std::size_t>(e.element));
    };
    return target.negative ? at(target.positive) - at(*target.negative) : at(target.positive);
  }

  /// Without adjoints nothing is rounded.
  Values run(const std::vector<double>& input, const Values* adjoints, double direction) const {
    Values values(graph_.values.size());
    values[graph_.inputs.front()] = input;
    for (const Node& node : graph_.nodes) {
      const auto rounding = [&](std::size_t i) {
        if (adjoints == nullptr || (*adjoints)[node.output].empty()) return Rounding();
        const double d = (*adjoints)[node.output][i] * direction;
        return Rounding(u_, d == 0.0 ? 0.0 : std::copysign(1.0, d));
      };
      values[node.output] = value_of(node, values, rounding);
    }
    return values;
  }

  std::vector<double> value_of(const Node& node, const Values& values,
                               const std::function<Rounding(std::size_t)>& rounding) const {
    const std::vector<double>& x = values[node.inputs[0]];
    std::vector<double> y;
    if (const auto* gemm = std::get_if<op::Gemm>(&node.op)) {
      const ProductPlan plan = plan_of(*gemm, node, x.size());
      const std::vector<double>& w = constants_[node.inputs[1]].values;
      std::vector<double> terms(x.size());
      for (std::int64_t j = 0; j < plan.n; ++j) {
        const Rounding of_element = rounding(y.size());
        for (std::size_t k = 0; k < x.size(); ++k)
          terms[k] = x[k] * w[plan.b_index(0, static_cast<std::int64_t>(k), j)];
        const double sum = worst_sum(terms, of_element);
        const bool has_addend = node.inputs.size() > 2;
        y.push_back(has_addend ? of_element.of_sum(sum, constants_[node.inputs[2]].values[y.size()]) : sum);
      }
      return y;
    }
    if (std::holds_alternative<op::Add>(node.op)) {
      const std::vector<double>& other = values[node.inputs[1]];
      for (std::size_t i = 0; i < x.size(); ++i) y.push_back(rounding(i).of_sum(x[i], other[i]));
      return y;
    }
    for (const double element : x) y.push_back(function_of(node.op, element));
    return y;
  }

  ProductPlan plan_of(const op::Gemm& gemm, const Node& node, std::size_t inputs) const {
    return plan_product(gemm, {1, static_cast<std::int64_t>(inputs)}, constants_[node.inputs[1]].shape);
  }

  Values adjoint(const Target& target) const {
    Values d(graph_.values.size());
    const auto of = [&](ValueId id) -> std::vector<double>& {
      d[id].resize(exact_[id].size());
      return d[id];
    };
    const auto seed = [&](const OutputElement& e, double factor) {
      of(graph_.outputs.at(e.output)).at(static_cast<std::size_t>(e.element)) += factor;
    };
    seed(target.positive, 1.0);
    if (target.negative) seed(*target.negative, -1.0);
    for (std::size_t index = graph_.nodes.size(); index-- > 0;) {
      const Node& node = graph_.nodes[index];
      if (d[node.output].empty()) continue;
      const std::vector<double> from = d[node.output], &x = exact_[node.inputs[0]];
      std::vector<double>& to = of(node.inputs[0]);
      if (const auto* gemm = std::get_if<op::Gemm>(&node.op)) {
        const ProductPlan plan = plan_of(*gemm, node, x.size());
        for (std::size_t k = 0; k < to.size(); ++k)
          for (std::size_t j = 0; j < from.size(); ++j)
            to[k] += from[j] * constants_[node.inputs[1]]
                                   .values[plan.b_index(0, static_cast<std::int64_t>(k), static_cast<std::int64_t>(j))];
      } else if (std::holds_alternative<op::Add>(node.op)) {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
        std::vector<double>& other = of(node.inputs[1]);
        for (std::size_t i = 0; i < other.size(); ++i) other[i] += from[i];
      } else {
        for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i] * slope_of(node.op, x[i]);
      }
    }
    return d;
  }

  const Graph& graph_;
  double u_;
  std::vector<Tensor<double>> constants_;
  Values exact_;
};

}  // namespace

bool knows_worst_roundings(const Graph& graph) {
  const auto is_known = [&](const Node& node) {
    if (const auto* gemm = std::get_if<op::Gemm>(&node.op))
      return gemm->alpha == 1.0 && gemm->beta == 1.0 && !gemm->transpose_a && !graph.is_constant(node.inputs[0]) &&
             graph.is_constant(node.inputs[1]) && (node.inputs.size() < 3 || graph.is_constant(node.inputs[2]));
    if (std::holds_alternative<op::Add>(node.op))
      return !graph.is_constant(node.inputs[0]) && !graph.is_constant(node.inputs[1]);
    return std::holds_alternative<op::Relu>(node.op) || std::holds_alternative<op::Softplus>(node.op) ||
           std::holds_alternative<op::Sin>(node.op) || std::holds_alternative<op::Tanh>(node.op);
  };
  return graph.inputs.size() == 1 && std::all_of(graph.nodes.begin(), graph.nodes.end(), is_known);
}

double error_of_worst_roundings(const Graph& graph, const std::vector<double>& input, const Target& target, double u) {
  if (!knows_worst_roundings(graph)) throw InvalidArgument("worst roundings of a network with other ops");
  const Runs runs(graph, input, u);
  return std::max(std::abs(runs.error(input, target, 1.0)), std::abs(runs.error(input, target, -1.0)));
}

}  // namespace driftbound::soundness
