#include "bounds/nodes/secants.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "bounds/nodes/linear.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {
namespace {

/// For relative steps up to this size, the difference f(a) - f(b) may have a larger relative error than the slope at
/// the shadow, which is then used.
constexpr Extended small_step = 0x1p-32;

double secant(Extended difference, Extended step, Extended x, double slope) {
  return std::abs(step) <= small_step * std::abs(x) ? slope : static_cast<double>(difference / step);
}

Extended at(const std::vector<Extended>& values, std::size_t i) {
  return values.empty() ? Extended(0) : values[i];
}

std::vector<double> unary(const ExtendedView& view, const ExtendedImage& image, const std::vector<double>& slopes) {
  const ExtendedValue& operand = *view.inputs[0];
  std::vector<double> secants(slopes.size());
  for (std::size_t i = 0; i < slopes.size(); ++i)
    secants[i] = secant(at(image.change, i), operand.step_at(i), operand.run.values[i], slopes[i]);
  return secants;
}

/// The values of an operand in the run and in the exact network, and their difference.
struct BothValues {
  Tensor<Extended> run, exact;
  std::vector<Extended> step;

  BothValues(const ExtendedValue* value, const Tensor<double>& constant)
      : run(value == nullptr ? widened(constant) : value->run), exact(value == nullptr ? run : value->exact()) {
    if (value != nullptr) step = value->step;
  }
};

/// Returns the secants of an op of two operands: the mean over both orders in which the operands change from the exact
/// network to the run, one after the other.
std::vector<std::vector<double>> binary(const ExtendedView& view, const ExtendedImage& image, const NodeView& shadow,
                                        const std::vector<std::vector<double>>& slopes) {
  const BothValues a(view.inputs[0], shadow.input(0)), b(view.inputs[1], shadow.input(1));
  const Shape& shape = shadow.output->shape;
  const Tensor<Extended> first = extended_value(*view.node, {&a.run, &b.exact}, shape);
  const Tensor<Extended> second = extended_value(*view.node, {&a.exact, &b.run}, shape);
  const BroadcastIndex in_first(a.run.shape, shape), in_second(b.run.shape, shape);
  std::vector<std::vector<double>> secants(2, std::vector<double>(shadow.output->size()));
  for (std::size_t i = 0; i < secants[0].size(); ++i) {
    const std::size_t p = in_first(i), q = in_second(i);
    const Extended change = at(image.change, i), between = first.values[i] - second.values[i];
    secants[0][i] = secant((change + between) / 2, at(a.step, p), a.run.values[p], slopes[0][i]);
    secants[1][i] = secant((change - between) / 2, at(b.step, q), b.run.values[q], slopes[1][i]);
  }
  return secants;
}

/// Returns the secants of a maximum (minimum): nonzero weights at the element selected in the run and at the one
/// selected in the exact network, for every group.
std::vector<double> extreme(const ExtendedValue& operand, const NodeView& shadow, bool is_max) {
  const GroupPlan plan = plan_groups(shadow.node->op, shadow.input(0).shape);
  const auto chosen = [&](const std::vector<Extended>& x, std::size_t group) {
    std::size_t best = group + plan.elements.front();
    for (const std::size_t element : plan.elements) {
      const std::size_t i = group + element;
      if (is_max ? x[i] > x[best] : x[i] < x[best]) best = i;
    }
    return best;
  };
  const std::vector<Extended>& run = operand.run.values;
  const Tensor<Extended> exact = operand.exact();
  std::vector<double> weights(run.size(), 0.0);
  for (const std::size_t group : plan.groups) {
    const std::size_t j = chosen(run, group), k = chosen(exact.values, group);
    const Extended denominator = operand.step_at(j) - operand.step_at(k);
    const double share = j == k || denominator == 0 ? 1.0 : static_cast<double>((run[j] - run[k]) / denominator);
    weights[j] += share;
    if (j != k) weights[k] += 1.0 - share;
  }
  return weights;
}

}  // namespace

std::vector<std::vector<double>> approx_secants(const ExtendedView& view, const ExtendedImage& image,
                                                const NodeView& shadow, const Setting& setting) {
  const std::vector<Radii> none(shadow.inputs.size());
  std::vector<std::vector<double>> slopes = linearise(shadow, none, {}, setting).slopes;
  const bool has_slopes = std::any_of(slopes.begin(), slopes.end(), [](const auto& s) { return !s.empty(); });
  return std::visit(
      [&](const auto& op) -> std::vector<std::vector<double>> {
        using Which = std::decay_t<decltype(op)>;
        if (view.inputs[0] == nullptr && !ElementwiseBinary<Which>) return slopes;
        if constexpr (OneOf<Which, op::ReduceMax, op::ReduceMin>)
          return {extreme(*view.inputs[0], shadow, OneOf<Which, op::ReduceMax>)};
        if (!has_slopes) return slopes;
        if constexpr (ElementwiseUnary<Which>) return {unary(view, image, slopes[0])};
        if constexpr (ElementwiseBinary<Which>) return binary(view, image, shadow, slopes);
        return slopes;
      },
      shadow.node->op);
}

std::vector<double> approx_softmax_secant(const ExtendedValue& operand, const NodeView& shadow,
                                          const std::vector<double>& d) {
  const ReductionPlan plan = plan_reduction(std::get<op::Softmax>(shadow.node->op), shadow.output->shape);
  const Tensor<Extended> exact = operand.exact();
  std::vector<double> result(d.size());
  for (std::int64_t o = 0; o < plan.outer; ++o) {
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      const auto index = [&](std::int64_t j) { return plan.index(o, j, i); };
      Extended largest = exact.values[index(0)], sum = 0, weighted = 0, all = 0;
      for (std::int64_t j = 0; j < plan.length; ++j) largest = std::max(largest, exact.values[index(j)]);
      for (std::int64_t j = 0; j < plan.length; ++j) {
        const Extended term = std::exp(exact.values[index(j)] - largest);
        sum += std::exp(operand.run.values[index(j)] - largest);
        all += term;
        weighted += term * static_cast<Extended>(d[index(j)]);
      }
      for (std::int64_t j = 0; j < plan.length; ++j) {
        const Extended step = operand.step_at(index(j)), base = std::exp(exact.values[index(j)] - largest);
        const double slope = static_cast<double>(step == 0 ? base : base * std::expm1(step) / step);
        result[index(j)] = slope * static_cast<double>((static_cast<Extended>(d[index(j)]) - weighted / all) / sum);
      }
    }
  }
  return result;
}

}  // namespace driftbound::bounds
