#include <algorithm>
#include <string>

#include "bounds/adjoint/linear.hpp"
#include "bounds/product_node.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {
namespace {

Linearised own_jacobian(const NodeView& view) {
  Linearised result;
  result.slopes.resize(view.inputs.size());
  return result;
}

/// Every overload expands one op.
class Expansion {
public:
  Expansion(const NodeView& view, std::span<const Radii> radii, Radii y_error, const Setting& setting)
      : view_(view), radii_(radii), y_error_(y_error), setting_(setting), rules_(setting.rules->linear) {}

  Linearised operator()(const OneOf<op::Add, op::Sub, op::ReduceSum> auto&) const { return own_jacobian(view_); }
  Linearised operator()(const Selection auto&) const { return own_jacobian(view_); }
  Linearised operator()(const OneOf<op::Neg, op::Cast> auto&) const {
    Linearised result = own_jacobian(view_);
    result.lipschitz = Magnitude(1.0);
    return result;
  }

  Linearised operator()(const op::Relu&) const { return unary(rules_.relu); }
  Linearised operator()(const op::LeakyRelu& leaky) const { return unary(rules_.leaky_relu, leaky.alpha); }
  Linearised operator()(const op::Elu& elu) const { return unary(rules_.elu, elu.alpha); }
  Linearised operator()(const op::Tanh&) const { return unary(rules_.tanh); }
  Linearised operator()(const op::Sigmoid&) const { return unary(rules_.sigmoid); }
  Linearised operator()(const op::Softplus&) const { return unary(rules_.softplus); }
  Linearised operator()(const op::Sin&) const { return unary(rules_.sin); }
  Linearised operator()(const op::Cos&) const { return unary(rules_.cos); }
  Linearised operator()(const op::Exp&) const { return unary(rules_.exp); }
  Linearised operator()(const op::Erf&) const { return unary(rules_.erf); }
  Linearised operator()(const op::Sqrt&) const { return unary(rules_.sqrt); }
  Linearised operator()(const op::Abs&) const { return unary(rules_.absolute); }
  Linearised operator()(const op::Reciprocal&) const { return unary(rules_.reciprocal); }
  Linearised operator()(const op::Log&) const { return unary(rules_.log); }
  Linearised operator()(const op::Tan&) const { return unary(rules_.tan); }
  Linearised operator()(const op::Atan&) const { return unary(rules_.atan); }
  Linearised operator()(const op::Sinh&) const { return unary(rules_.sinh); }
  Linearised operator()(const op::Cosh&) const { return unary(rules_.cosh); }
  Linearised operator()(const op::Floor&) const { return unary(rules_.floor); }
  Linearised operator()(const op::Ceil&) const { return unary(rules_.ceil); }
  Linearised operator()(const op::Sign&) const { return unary(rules_.sign); }
  Linearised operator()(const op::Pow& power) const { return unary(rules_.power, power.exponent); }
  Linearised operator()(const op::ThresholdedRelu& relu) const { return unary(rules_.thresholded_relu, relu.alpha); }
  Linearised operator()(const op::Clip& clip) const {
    return elements([&](const Point& p) { return rules_.clip(p, clip.least, clip.most); }, 0.0);
  }

  Linearised operator()(const op::Mul&) const { return binary(rules_.product); }
  Linearised operator()(const op::Div&) const { return binary(rules_.quotient); }
  Linearised operator()(const op::Max&) const { return binary(rules_.maximum); }
  Linearised operator()(const op::Min&) const { return binary(rules_.minimum); }
  Linearised operator()(const op::PRelu&) const { return binary(rules_.prelu); }

  Linearised operator()(const op::ReduceMax&) const { return groups(rules_.reduce_max); }
  Linearised operator()(const op::ReduceMin&) const { return groups(rules_.reduce_min); }

  Linearised operator()(const op::Softmax& softmax) const {
    Linearised result = own_jacobian(view_);
    result.remainder.resize(view_.output->size());
    const ReductionPlan plan = plan_reduction(softmax, view_.output->shape);
    const auto length = static_cast<std::size_t>(plan.length);
    std::vector<double> p(length), error(length), e(length), remainder(length);
    for (std::int64_t o = 0; o < plan.outer; ++o) {
      for (std::int64_t i = 0; i < plan.inner; ++i) {
        const auto at = [&](std::size_t j) { return plan.index(o, static_cast<std::int64_t>(j), i); };
        for (std::size_t j = 0; j < length; ++j) {
          p[j] = view_.y(at(j));
          error[j] = radius_at(y_error_, at(j)).value();
          e[j] = radius_at(radii_[0], at(j)).value();
        }
        rules_.softmax(p, error, e, remainder);
        for (std::size_t j = 0; j < length; ++j) result.remainder[at(j)] = remainder[j];
      }
    }
    return result;
  }

  /// (A + dA)(B + dB) - A B - dA B - A dB = dA dB
  Linearised operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    Linearised result = own_jacobian(view_);
    if (radii_[0].empty() || radii_[1].empty()) return result;
    const Product product = product_of(view_).value();
    result.remainder = product_up(product.plan, radii_[0], radii_[1], *setting_.rules, setting_.threads);
    for (double& value : result.remainder) value = (Magnitude(product.alpha) * Magnitude(value)).value();
    return result;
  }

  Linearised operator()(const Composite auto&) const {
    throw InvalidArgument("bounds: the composite op " + std::string(name_of(view_.node->op)) +
                          " has no Jacobian of its own; expand the graph to primitive ops first");
  }

private:
  template <class Rule>
  Linearised elements(const Rule& rule, double alpha) const {
    Linearised result = own_jacobian(view_);
    result.lipschitz = Magnitude();
    const std::vector<double>& x = view_.input(0).values;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Linear linear = rule(Point{x[i], radius_at(radii_[0], i), view_.y(i), radius_at(y_error_, i), alpha});
      result.slopes[0].push_back(linear.slope);
      result.remainder.push_back(linear.remainder.value());
      result.lipschitz = std::max(result.lipschitz, linear.lipschitz);
    }
    return result;
  }
  Linearised unary(LinearRules::Unary rule, double alpha = 0.0) const { return elements(rule, alpha); }

  Linearised binary(LinearRules::Binary rule) const {
    Linearised result = own_jacobian(view_);
    const Tensor<double>&a = view_.input(0), &b = view_.input(1);
    const BroadcastIndex a_index(a.shape, view_.output->shape), b_index(b.shape, view_.output->shape);
    for (std::size_t i = 0; i < view_.output->size(); ++i) {
      const std::size_t p = a_index(i), q = b_index(i);
      const LinearPair pair = rule(a.values[p], radius_at(radii_[0], p), b.values[q], radius_at(radii_[1], q));
      result.slopes[0].push_back(pair.slope_a);
      result.slopes[1].push_back(pair.slope_b);
      result.remainder.push_back(pair.remainder.value());
    }
    return result;
  }

  Linearised groups(LinearRules::Group rule) const {
    Linearised result = own_jacobian(view_);
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    std::vector<double> x(plan.elements.size()), e(plan.elements.size());
    result.slopes[0].assign(view_.input(0).size(), 0.0);
    for (std::size_t g = 0; g < view_.output->size(); ++g) {
      for (std::size_t j = 0; j < x.size(); ++j) {
        const std::size_t at = plan.groups[g] + plan.elements[j];
        x[j] = view_.input(0).values[at];
        e[j] = radius_at(radii_[0], at).value();
      }
      const LinearExtremum extremum = rule(x, e);
      result.slopes[0][plan.groups[g] + plan.elements[extremum.chosen]] = 1.0;
      result.remainder.push_back(extremum.remainder.value());
    }
    return result;
  }

  const NodeView& view_;
  std::span<const Radii> radii_;
  Radii y_error_;
  const Setting& setting_;
  const LinearRules& rules_;
};

}  // namespace

Linearised linearise(const NodeView& view, std::span<const Radii> operand_radii, Radii y_error,
                     const Setting& setting) {
  Linearised result = std::visit(Expansion(view, operand_radii, y_error, setting), view.node->op);
  const auto& remainder = result.remainder;
  if (std::all_of(remainder.begin(), remainder.end(), [](double x) { return x == 0.0; })) result.remainder.clear();
  return result;
}

}  // namespace driftbound::bounds
