#include "bounds/adjoint/secants.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "bounds/adjoint/linear.hpp"
#include "bounds/centre.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {
namespace {

/// f at chosen operands, in double.
Tensor<double> value_at(const NodeView& view, std::vector<const Tensor<double>*> operands, const Setting& setting) {
  const NodeView at{view.node, std::move(operands), view.output};
  return centre_of_node(at, view.output->shape, setting).value;
}

double secant(double difference, double step, double slope) {
  return step == 0.0 ? slope : difference / step;
}

std::vector<double> unary(const NodeView& a, const NodeView& b, const std::vector<double>& slopes,
                          const Setting& setting) {
  const Tensor<double> f_a = value_at(a, a.inputs, setting);
  std::vector<double> secants(slopes.size());
  for (std::size_t i = 0; i < slopes.size(); ++i)
    secants[i] = secant(f_a.values[i] - b.y(i), a.input(0).values[i] - b.input(0).values[i], slopes[i]);
  return secants;
}

/// Mean of the two ways from b to a, one operand after the other.
std::vector<std::vector<double>> binary(const NodeView& a, const NodeView& b,
                                        const std::vector<std::vector<double>>& slopes, const Setting& setting) {
  const Tensor<double> both = value_at(a, a.inputs, setting);
  const Tensor<double> first = value_at(a, {a.inputs[0], b.inputs[1]}, setting);
  const Tensor<double> second = value_at(a, {b.inputs[0], a.inputs[1]}, setting);
  const BroadcastIndex in_first(a.input(0).shape, b.output->shape), in_second(a.input(1).shape, b.output->shape);
  std::vector<std::vector<double>> secants(2, std::vector<double>(b.output->size()));
  for (std::size_t i = 0; i < b.output->size(); ++i) {
    const std::size_t p = in_first(i), q = in_second(i);
    const double by_first = 0.5 * (first.values[i] - b.y(i) + both.values[i] - second.values[i]);
    const double by_second = 0.5 * (second.values[i] - b.y(i) + both.values[i] - first.values[i]);
    secants[0][i] = secant(by_first, a.input(0).values[p] - b.input(0).values[p], slopes[0][i]);
    secants[1][i] = secant(by_second, a.input(1).values[q] - b.input(1).values[q], slopes[1][i]);
  }
  return secants;
}

/// Weights of the two largest (smallest) elements of every group.
std::vector<double> extreme(const NodeView& a, const NodeView& b, bool is_max) {
  const GroupPlan plan = plan_groups(b.node->op, b.input(0).shape);
  const auto chosen = [&](const std::vector<double>& x, std::size_t group) {
    std::size_t best = group + plan.elements.front();
    for (const std::size_t element : plan.elements) {
      const std::size_t i = group + element;
      if (is_max ? x[i] > x[best] : x[i] < x[best]) best = i;
    }
    return best;
  };
  const std::vector<double>&x = a.input(0).values, &y = b.input(0).values;
  std::vector<double> weights(x.size(), 0.0);
  for (const std::size_t group : plan.groups) {
    const std::size_t j = chosen(x, group), k = chosen(y, group);
    const double denominator = (x[j] - y[j]) - (x[k] - y[k]);
    const double share = j == k || denominator == 0.0 ? 1.0 : (x[j] - x[k]) / denominator;
    weights[j] += share;
    if (j != k) weights[k] += 1.0 - share;
  }
  return weights;
}

}  // namespace

std::vector<std::vector<double>> approx_secants(const NodeView& a, const NodeView& b, const Setting& setting) {
  const std::vector<Radii> none(b.inputs.size());
  std::vector<std::vector<double>> slopes = linearise(b, none, {}, setting).slopes;
  const bool has_slopes = std::any_of(slopes.begin(), slopes.end(), [](const auto& s) { return !s.empty(); });
  return std::visit(
      [&](const auto& op) -> std::vector<std::vector<double>> {
        using Which = std::decay_t<decltype(op)>;
        if constexpr (OneOf<Which, op::ReduceMax, op::ReduceMin>) return {extreme(a, b, OneOf<Which, op::ReduceMax>)};
        if (!has_slopes) return slopes;
        if constexpr (ElementwiseUnary<Which>) return {unary(a, b, slopes[0], setting)};
        if constexpr (ElementwiseBinary<Which>) return binary(a, b, slopes, setting);
        return slopes;
      },
      b.node->op);
}

std::vector<double> approx_softmax_secant(const NodeView& a, const NodeView& b, const std::vector<double>& d) {
  const ReductionPlan plan = plan_reduction(std::get<op::Softmax>(b.node->op), b.output->shape);
  std::vector<double> result(d.size());
  for (std::int64_t o = 0; o < plan.outer; ++o) {
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      const auto at = [&](std::int64_t j) { return plan.index(o, j, i); };
      double largest = b.input(0).values[at(0)], sum = 0.0, weighted = 0.0;
      for (std::int64_t j = 0; j < plan.length; ++j) largest = std::max(largest, b.input(0).values[at(j)]);
      for (std::int64_t j = 0; j < plan.length; ++j) {
        sum += std::exp(a.input(0).values[at(j)] - largest);
        weighted += b.y(at(j)) * d[at(j)];
      }
      for (std::int64_t j = 0; j < plan.length; ++j) {
        const double step = a.input(0).values[at(j)] - b.input(0).values[at(j)];
        const double base = std::exp(b.input(0).values[at(j)] - largest);
        const double slope = secant(base * std::expm1(step), step, base);
        result[at(j)] = slope / sum * (d[at(j)] - weighted);
      }
    }
  }
  return result;
}

}  // namespace driftbound::bounds
