#include "soundness/plain_network.hpp"

#include <algorithm>
#include <cmath>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::soundness {
namespace {

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

/// Nothing is 0.
void add_to(std::vector<double>& to, const std::vector<double>& more) {
  if (to.empty()) to.resize(more.size());
  if (to.size() != more.size()) throw InvalidArgument("worst runs of a network that adds values of two shapes");
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

/// [k, n], row-major, as it is multiplied.
std::vector<double> weights_of(const Graph& graph, const Node& node) {
  const Tensor<double> stored = graph.value(node.inputs[1]).constant.to_double();
  const auto& gemm = std::get<op::Gemm>(node.op);
  const ProductPlan plan = plan_product(gemm, {1, stored.shape[gemm.transpose_b ? 1 : 0]}, stored.shape);
  std::vector<double> weights;
  for (std::int64_t k = 0; k < plan.k; ++k)
    for (std::int64_t j = 0; j < plan.n; ++j) weights.push_back(stored.values[plan.b_index(0, k, j)]);
  return weights;
}

}  // namespace

bool is_plain_network(const Graph& graph) {
  const auto has_addend_for_every_column = [&](const Node& node, const op::Gemm& gemm) {
    if (node.inputs.size() < 3 || !graph.is_constant(node.inputs[1]) || !graph.is_constant(node.inputs[2]))
      return false;
    const Shape& weights = graph.value(node.inputs[1]).constant.shape();
    return element_count(graph.value(node.inputs[2]).constant.shape()) == weights[gemm.transpose_b ? 0 : 1];
  };
  const auto is_known = [&](const Node& node) {
    if (const auto* gemm = std::get_if<op::Gemm>(&node.op))
      return gemm->alpha == 1.0 && gemm->beta == 1.0 && !gemm->transpose_a && !graph.is_constant(node.inputs[0]) &&
             has_addend_for_every_column(node, *gemm);
    if (std::holds_alternative<op::Add>(node.op))
      return !graph.is_constant(node.inputs[0]) && !graph.is_constant(node.inputs[1]);
    return std::holds_alternative<op::Relu>(node.op) || std::holds_alternative<op::Softplus>(node.op) ||
           std::holds_alternative<op::Sin>(node.op) || std::holds_alternative<op::Tanh>(node.op);
  };
  return graph.inputs.size() == 1 && std::all_of(graph.nodes.begin(), graph.nodes.end(), is_known);
}

void add_product(std::vector<double>& y, const std::vector<double>& x, const std::vector<double>& weights) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (x[k] == 0.0) continue;
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[k] * weights[k * y.size() + j];
  }
}

PlainNetwork::PlainNetwork(const Graph& graph)
    : graph_(graph), weights_(graph.values.size()), addends_(graph.values.size()) {
  if (!is_plain_network(graph)) throw InvalidArgument("worst runs of a network with other ops");
  for (const Node& node : graph.nodes) {
    if (!is_product(node)) continue;
    weights_[node.output] = weights_of(graph, node);
    addends_[node.output] = graph.value(node.inputs[2]).constant.to_double().values;
  }
}

std::vector<double> PlainNetwork::value_of(const Node& node, const Values& values) const {
  std::vector<double> y = values[node.inputs[0]];
  if (is_sum(node)) {
    add_to(y, values[node.inputs[1]]);
  } else {
    for (double& element : y) element = function_of(node.op, element);
  }
  return y;
}

PlainNetwork::Values PlainNetwork::exact(const std::vector<double>& input) const {
  Values values(graph_.values.size());
  values[graph_.inputs.front()] = input;
  for (const Node& node : graph_.nodes) {
    std::vector<double>& y = values[node.output];
    if (!is_product(node)) {
      y = value_of(node, values);
      continue;
    }
    y = addend(node);
    add_product(y, values[node.inputs[0]], weights(node));
  }
  return values;
}

PlainNetwork::Values PlainNetwork::adjoint(const Values& exact, const Target& target) const {
  Values d(graph_.values.size());
  const auto seed = [&](const OutputElement& e, double factor) {
    std::vector<double>& of_output = d[graph_.outputs.at(e.output)];
    of_output.resize(exact[graph_.outputs.at(e.output)].size());
    of_output.at(static_cast<std::size_t>(e.element)) += factor;
  };
  seed(target.positive, 1.0);
  if (target.negative) seed(*target.negative, -1.0);
  for (std::size_t index = graph_.nodes.size(); index-- > 0;) {
    const Node& node = graph_.nodes[index];
    const std::vector<double> from = d[node.output];
    if (from.empty()) continue;
    std::vector<double> moved = from;
    if (is_product(node)) {
      moved.assign(exact[node.inputs[0]].size(), 0.0);
      for (std::size_t k = 0; k < moved.size(); ++k)
        for (std::size_t j = 0; j < from.size(); ++j) moved[k] += from[j] * weights(node)[k * from.size() + j];
    } else if (is_sum(node)) {
      add_to(d[node.inputs[1]], from);
    } else {
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] *= slope_of(node.op, exact[node.inputs[0]][i]);
    }
    add_to(d[node.inputs[0]], moved);
  }
  return d;
}

double PlainNetwork::value_of(const Target& target, const Values& values) const {
  const auto at = [&](const OutputElement& e) {
    return values[graph_.outputs.at(e.output)].at(static_cast<std::size_t>(e.element));
  };
  return target.negative ? at(target.positive) - at(*target.negative) : at(target.positive);
}

}  // namespace driftbound::soundness
