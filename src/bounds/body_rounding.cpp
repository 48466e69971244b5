#include "bounds/body_rounding.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/accuracy.hpp"
#include "bounds/product_node.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Every overload gives the rounding errors of one op, element by element, from the largest magnitudes that its
/// operands and its exact result can have in the run. All rules grow with those.
class Roundings {
public:
  Roundings(const UnrecordedNode& node, const Setting& setting, std::set<std::string>& conditions)
      : node_(node), setting_(setting), machine_(setting.machine), rules_(*setting.rules), conditions_(conditions) {}

  using Errors = std::vector<double>;

  Errors operator()(const OneOf<op::Add, op::Sub, op::Mul, op::Div, op::PRelu, op::Reciprocal> auto&) const {
    return outputs([&](Magnitude y) { return rounded(y); });
  }
  Errors operator()(const OneOf<op::Neg, op::Relu, op::Abs, op::Floor, op::Ceil, op::Sign, op::Min, op::Max,
                                op::ReduceMax, op::ReduceMin> auto&) const {
    return outputs([&](Magnitude y) { return stored(y); });
  }
  Errors operator()(const Selection auto&) const {
    return outputs([&](Magnitude y) { return stored(y); });
  }
  Errors operator()(const op::Clip& clip) const {
    const Magnitude constants = constant_error(clip.least) + constant_error(clip.most);
    return outputs([&](Magnitude y) { return stored(y) + constants; });
  }
  Errors operator()(const op::ThresholdedRelu& relu) const {
    const Magnitude constant = constant_error(relu.alpha);
    return outputs([&](Magnitude y) { return constant == Magnitude() ? stored(y) : Magnitude::infinite(); });
  }
  Errors operator()(const op::LeakyRelu& leaky) const {
    const Magnitude constant = constant_error(leaky.alpha);
    return elements([&](Magnitude x, Magnitude y) { return constant * x + rounded(y + constant * x); });
  }
  Errors operator()(const op::Elu& elu) const {
    const Magnitude constant = constant_error(elu.alpha);
    const double units = units_of("expm1", setting_, conditions_);
    return elements([&](Magnitude x, Magnitude y) {
      const Magnitude inside = std::min(x, Magnitude(1.0));  // |e^x - 1| <= min(|x|, 1) below 0
      const Magnitude alpha = Magnitude(elu.alpha) + constant;
      const Magnitude before = alpha * rules_.allowed_error(inside, units, machine_) + constant * inside;
      return before + rounded(y + before);
    });
  }
  Errors operator()(const op::Tanh&) const { return function("tanh"); }
  Errors operator()(const op::Softplus&) const { return function("softplus"); }
  Errors operator()(const op::Sin&) const { return function("sin"); }
  Errors operator()(const op::Cos&) const { return function("cos"); }
  Errors operator()(const op::Exp&) const { return function("exp"); }
  Errors operator()(const op::Erf&) const { return function("erf"); }
  Errors operator()(const op::Log&) const { return function("log"); }
  Errors operator()(const op::Tan&) const { return function("tan"); }
  Errors operator()(const op::Atan&) const { return function("atan"); }
  Errors operator()(const op::Sinh&) const { return function("sinh"); }
  Errors operator()(const op::Cosh&) const { return function("cosh"); }
  Errors operator()(const op::Pow&) const { return function("pow"); }
  Errors operator()(const op::Sqrt&) const { return function("sqrt"); }
  /// T-16: e^-x may overflow inside the sigmoid of a foreign run, which then is 0.
  Errors operator()(const op::Sigmoid&) const {
    Errors errors = function("sigmoid");
    if (setting_.is_own_run) return errors;
    const Magnitude lost(3.0 * machine_.accumulator->smallest_normal);
    for (double& error : errors) error = std::max(Magnitude(error), lost + stored(lost)).value();
    return errors;
  }

  /// T-10, T-11 without products; T-12 where terms and sums are flushed.
  Errors operator()(const op::ReduceSum&) const {
    const GroupPlan plan = plan_groups(node_.view.node->op, node_.view.input(0).shape);
    const auto terms = static_cast<std::int64_t>(plan.elements.size());
    Magnitude factor = rules_.any_order_factor(terms - 1, machine_);
    if (!node_.any_order && terms > 0) {
      factor = std::min(factor, rules_.path_factor(rules_.sum_height(machine_.order, terms), machine_));
    }
    const Magnitude flushed = rules_.underflow_term(0, terms, machine_);
    Errors errors;
    for (std::size_t g = 0; g < node_.view.output->size(); ++g) {
      Magnitude total;
      for (const std::size_t element : plan.elements) total += operand(0, plan.groups[g] + element);
      const Magnitude error = factor * total + flushed;
      const bool is_safe = rules_.stays_finite(total, error, machine_);
      errors.push_back((is_safe ? error + stored(total + error) : Magnitude::infinite()).value());
    }
    return errors;
  }

  /// T-10 to T-13 and T-21 with the largest operands, whose roundings come on top.
  Errors operator()(const op::MatMul&) const {
    Product product = product_of(node_.view).value();
    product.operands_are_bounds = true;
    const std::vector<Tensor<double>> largest = {largest_operand(0), largest_operand(1)};
    const std::vector<double> read = reading_errors(product.plan, largest);
    Tensor<double> output(node_.view.output->shape);  // the largest result before it is rounded, in two rounds
    for (std::size_t i = 0; i < output.size(); ++i) output.values[i] = (result(i) + Magnitude(read[i])).value();
    const NodeView view{node_.view.node, {&largest[0], &largest[1]}, &output};
    const std::vector<double> first = chosen(product_bounds(product, view, setting_));
    for (std::size_t i = 0; i < output.size(); ++i) {
      output.values[i] = (Magnitude(output.values[i]) + Magnitude(first[i])).value();
    }
    Errors errors = chosen(product_bounds(product, view, setting_));
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = (Magnitude(errors[i]) + Magnitude(read[i])).value();
    return errors;
  }

  Errors operator()(const OneOf<op::Gemm, op::Softmax, op::Cast> auto&) const { return not_in_a_body(); }
  Errors operator()(const Composite auto&) const { return not_in_a_body(); }

private:
  [[noreturn]] Errors not_in_a_body() const {
    throw InvalidArgument("bounds: no body of a composite holds the op " + std::string(name_of(node_.view.node->op)));
  }

  Magnitude operand(std::size_t slot, std::size_t i) const {
    return Magnitude(node_.view.input(slot).values[i]) + radius_at(node_.operand_radii[slot], i);
  }
  /// Largest magnitude of the exact result at the run's operands.
  Magnitude result(std::size_t i) const { return Magnitude(node_.view.y(i)) + radius_at(node_.moved, i); }

  template <class Rule>
  Errors outputs(const Rule& rule) const {
    Errors errors;
    for (std::size_t i = 0; i < node_.view.output->size(); ++i) errors.push_back(rule(result(i)).value());
    return errors;
  }
  template <class Rule>
  Errors elements(const Rule& rule) const {
    Errors errors;
    for (std::size_t i = 0; i < node_.view.output->size(); ++i) {
      errors.push_back(rule(operand(0, i), result(i)).value());
    }
    return errors;
  }

  /// The largest |y| that rounding a number of at most this magnitude can give.
  double rounded_away(Magnitude t) const {
    return t.is_finite() ? round_to(t.value(), *machine_.accumulator, Rounding::up) : infinity;
  }
  Magnitude rounded(Magnitude t) const {
    const double y = rounded_away(t);
    if (!std::isfinite(y)) return Magnitude::infinite();
    return std::max(rules_.rounding_error(y, machine_), rules_.rounding_error(0.0, machine_));
  }
  Magnitude stored(Magnitude t) const {
    const double y = rounded_away(t);
    if (!std::isfinite(y)) return Magnitude::infinite();
    return std::max(rules_.storing_error(y, machine_), rules_.storing_error(0.0, machine_));
  }
  Magnitude constant_error(double constant) const { return rules_.constant_error(constant, machine_); }

  Errors function(std::string_view name) const {
    const double units = units_of(name, setting_, conditions_);
    return outputs([&](Magnitude f) {
      const Magnitude error = rules_.allowed_error(f, units, machine_);
      return error + stored(f + error);
    });
  }

  /// Upper bounds of the operand as numbers of the products' operand format.
  Tensor<double> largest_operand(std::size_t slot) const {
    Tensor<double> largest(node_.view.input(slot).shape);
    for (std::size_t i = 0; i < largest.size(); ++i) {
      const Magnitude bound = operand(slot, i);
      largest.values[i] = bound.is_finite() ? round_to(bound.value(), *machine_.input, Rounding::up) : infinity;
    }
    return largest;
  }

  /// What rounding (or flushing) operands to that format moves products, given their largest magnitudes.
  std::vector<double> reading_errors(const ProductPlan& plan, const std::vector<Tensor<double>>& largest) const {
    const Machine products = product_machine(machine_);
    const bool is_exact = machine_.input == machine_.accumulator && !products.flushes;
    if (is_exact) return std::vector<double>(node_.view.output->size(), 0.0);
    const auto reading = [&](const std::vector<double>& values) {
      std::vector<double> errors;
      for (const double x : values) {
        const Magnitude rounding =
            std::isfinite(x) ? rules_.cast_error(x, *machine_.input, machine_) : Magnitude::infinite();
        const Magnitude flushed = products.flushes ? Magnitude(machine_.input->smallest_normal) : Magnitude();
        errors.push_back(x == 0.0 ? 0.0 : (rounding + flushed).value());
      }
      return errors;
    };
    const std::vector<double>& a = largest[0].values;
    const std::vector<double>& b = largest[1].values;
    std::vector<double> b_read = b;
    const std::vector<double> a_error = reading(a), b_error = reading(b);
    for (std::size_t i = 0; i < b.size(); ++i) b_read[i] = (Magnitude(b[i]) + Magnitude(b_error[i])).value();
    std::vector<double> errors = product_up(plan, a_error, b_read, rules_, setting_.threads);
    const std::vector<double> more = product_up(plan, a, b_error, rules_, setting_.threads);
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = (Magnitude(errors[i]) + Magnitude(more[i])).value();
    return errors;
  }

  Errors chosen(ProductBounds bounds) const {
    return node_.any_order || bounds.order_aware.empty() ? std::move(bounds.any_order) : std::move(bounds.order_aware);
  }

  const UnrecordedNode& node_;
  const Setting& setting_;
  const Machine& machine_;
  const Rules& rules_;
  std::set<std::string>& conditions_;
};

}  // namespace

std::vector<double> body_rounding(const UnrecordedNode& node, const Setting& setting,
                                  std::set<std::string>& conditions) {
  return std::visit(Roundings(node, setting, conditions), node.view.node->op);
}

}  // namespace driftbound::bounds
