#include "bounds/nodes/body_rounding.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/accuracy.hpp"
#include "bounds/nodes/product_rounding.hpp"
#include "bounds/sums/number_terms.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/functions.hpp"
#include "bounds/theorems/op_traits.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/softmax.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {
namespace {

/// Each overload bounds the rounding errors of one op, element by element, by the largest magnitudes that its operands
/// and its exact result can have in the run. Every rule is a nondecreasing function of these magnitudes.
class Roundings {
public:
  Roundings(const UnrecordedNode& node, const Setting& setting, std::set<std::string>& conditions)
      : node_(node),
        setting_(setting),
        machine_(setting.machine),
        conditions_(conditions),
        results_(magnitudes(node.view.output->values)) {
    if (!node.moved.empty()) add_magnitudes(results_, node.moved);
  }

  using Errors = std::vector<double>;

  Errors operator()(const OneOf<op::Add, op::Sub, op::Mul, op::Div, op::PRelu> auto&) const {
    return unless_held([&](Magnitude y) { return rounded(y); });
  }
  Errors operator()(const OneOf<op::Min, op::Max, op::Choice, op::ReduceMax, op::ReduceMin> auto&) const {
    return unless_held([&](Magnitude y) { return stored(y); });
  }
  template <ElementwiseUnary F>
  Errors operator()(const F&) const {
    using Traits = OpTraits<F>;
    static_assert(Traits::evaluation != Evaluation::special, "a rule of its own is missing below");
    if constexpr (Traits::evaluation == Evaluation::copied) return unless_held([&](Magnitude y) { return stored(y); });
    if constexpr (Traits::evaluation == Evaluation::rounded)
      return unless_held([&](Magnitude y) { return rounded(y); });
    if constexpr (Traits::evaluation == Evaluation::called) return function(Traits::accuracy);
  }
  /// The results 0 and 1 are exact in every format.
  Errors operator()(const Comparison auto&) const { return Errors(node_.view.output->size(), 0.0); }
  Errors operator()(const Selection auto&) const {
    Errors errors = unless_held([&](Magnitude y) { return stored(y); });
    add_fill_errors(errors);
    return errors;
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
    const FunctionError accuracy = error_of("expm1", setting_, conditions_);
    const FunctionError exp = setting_.is_own_run ? accuracy : error_of_exp_in_elu(setting_, conditions_);
    return elements([&](Magnitude x, Magnitude y) {
      const Magnitude inside = std::min(x, Magnitude(1.0));  // |e^x - 1| <= min(|x|, 1) below 0
      const Magnitude alpha = Magnitude(elu.alpha) + constant;
      Magnitude function = theorems::allowed_error(inside, accuracy, machine_);
      if (!setting_.is_own_run) function = std::max(function, theorems::exp_less_one_error(inside, exp, machine_));
      const Magnitude before = alpha * function + constant * inside;
      return before + rounded(y + before);
    });
  }
  /// T-16: in a foreign run, e^-x may overflow inside the sigmoid, which then returns 0.
  Errors operator()(const op::Sigmoid&) const {
    Errors errors = function("sigmoid");
    if (setting_.is_own_run) return errors;
    const Magnitude lost(3.0 * machine_.accumulator->smallest_normal);
    for (double& error : errors) error = std::max(Magnitude(error), lost + stored(lost)).value();
    return errors;
  }

  /// T-10, T-11 and T-68 for sums of numbers (no products), and T-12 if terms and sums are flushed; T-136 and T-187 where
  /// programs may merge means instead.
  Errors operator()(const op::ReduceSum& sum) const {
    const GroupPlan plan = plan_groups(node_.view.node->op, node_.view.input(0).shape);
    const auto length = static_cast<std::int64_t>(plan.elements.size());
    const Magnitude path = path_factor(theorems::sum_height(machine_.order, length) - 1);
    Errors errors;
    for (std::size_t g = 0; g < node_.view.output->size(); ++g) {
      NumberTerms numbers;
      for (const std::size_t element : plan.elements) {
        const std::size_t i = plan.groups[g] + element;
        numbers.add(node_.view.input(0).values[i], radius_at(node_.operand_radii[0], i));
      }
      TermSizes terms = numbers.sizes();
      terms.sum = std::min(result(g), terms.total);
      Magnitude error = error_of_sum(terms, path);
      const bool may_merge = sum.is_of_moment && !setting_.is_own_run && !node_.sums_are_exact && terms.leaves > 0;
      if (may_merge) error = std::max(error, error_of_merged(terms, path, plan, g));
      errors.push_back(error.value());
    }
    return errors;
  }

  Errors operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    if (node_.sums_are_exact) return outputs([&](Magnitude y) { return rounded(y); });
    return product_rounding(node_, setting_);
  }

  /// T-17, for all operands within their radii.
  Errors operator()(const op::Softmax& softmax) const {
    const FunctionError accuracy = error_of("exp", setting_, conditions_);
    const ReductionPlan plan = plan_reduction(softmax, node_.view.output->shape);
    const Magnitude factor =
        node_.sums_are_exact
            ? Magnitude(machine_.u)
            : sum_factor(plan.length - 1, path_factor(theorems::sum_height(machine_.order, plan.length)));
    const auto length = static_cast<std::size_t>(plan.length);
    UnrecordedRow row{std::vector<double>(length), std::vector<double>(length), std::vector<double>(length)};
    Errors errors(node_.view.output->size()), bound(length);
    for (std::int64_t o = 0; o < plan.outer; ++o) {
      for (std::int64_t i = 0; i < plan.inner; ++i) {
        const auto index = [&](std::size_t j) { return plan.index(o, static_cast<std::int64_t>(j), i); };
        for (std::size_t j = 0; j < length; ++j) {
          row.centres[j] = node_.view.input(0).values[index(j)];
          row.radii[j] = radius_at(node_.operand_radii[0], index(j)).value();
          row.results[j] = result(index(j)).value();
        }
        theorems::unrecorded_softmax_error(row, accuracy, factor, machine_, bound);
        for (std::size_t j = 0; j < length; ++j) errors[index(j)] = bound[j];
      }
    }
    return errors;
  }

  /// T-14, for all operands within their radii.
  Errors operator()(const op::Cast& cast) const {
    const Format& target = format_of(cast.to);
    const bool holds_every_number = machine_.accumulator->precision <= target.precision &&
                                    machine_.accumulator->min_exponent >= target.min_exponent &&
                                    machine_.accumulator->largest <= target.largest;
    const Magnitude flushed(machine_.flushes ? target.smallest_normal : 0.0);
    return outputs([&](Magnitude y) {
      const Magnitude rounded = holds_every_number ? flushed : theorems::unrecorded_cast(y, target, machine_);
      return rounded + stored(y + rounded);
    });
  }

  Errors operator()(const Composite auto&) const {
    throw InvalidArgument("bounds: the roundings of " + std::string(name_of(node_.view.node->op)) +
                          " are those of its body; ask for the nodes of that");
  }

private:
  Magnitude operand(std::size_t slot, std::size_t i) const {
    return Magnitude(node_.view.input(slot).values[i]) + radius_at(node_.operand_radii[slot], i);
  }
  /// Returns the largest magnitude of the exact result at the run's operands.
  Magnitude result(std::size_t i) const { return Magnitude(results_[i]); }

  /// Bounds the error of a sum of stored numbers. `path`: the factor of T-11 without the last rounding.
  Magnitude error_of_sum(const TermSizes& terms, Magnitude path) const {
    if (node_.sums_are_exact) return rounded(terms.sum);
    Magnitude before = sum_factor(terms.leaves - 2, path) * terms.total;
    if (machine_.to_nearest() && !machine_.flushes) {
      before = std::min(before, theorems::partial_sums_error(terms, machine_));
    }
    before += theorems::underflow_term(0, terms.leaves, machine_);
    const bool nothing_rounded = terms.leaves < 2;
    const Magnitude last = nothing_rounded ? stored(terms.sum) : rounded(terms.sum + before);
    return theorems::stays_finite(terms.total, before + last, machine_) ? before + last : Magnitude::infinite();
  }

  /// The same where a moment is merged from those of parts: a mean is rounded at zeros too, and stays among its numbers.
  Magnitude error_of_merged(TermSizes terms, Magnitude path, const GroupPlan& plan, std::size_t g) const {
    const auto length = static_cast<std::int64_t>(plan.elements.size());
    terms.leaves = length;
    const Magnitude by_size = error_of_sum(terms, path) + theorems::error_of_merges(length, terms.total, machine_);
    if (node_.sums_squares || !machine_.to_nearest() || machine_.flushes) return by_size;
    double least = infinity, most = -infinity;
    for (const std::size_t element : plan.elements) {
      const std::size_t i = plan.groups[g] + element;
      const double x = node_.view.input(0).values[i], radius = radius_at(node_.operand_radii[0], i).value();
      least = std::min(least, sub_down(x, radius));
      most = std::max(most, add_up(x, radius));
    }
    return std::min(by_size, theorems::reach_of_merged_mean(least, most, node_.view.y(g), radius_at(node_.moved, g),
                                                            length, machine_));
  }

  /// Whether the exact result may lie above the largest double, where no Magnitude is, but below what is rounded to
  /// infinity: its rounding error then is at most that of the largest double.
  bool rounds_to_largest_double(std::size_t i) const {
    constexpr double quarter_unit = 0x1p969;
    return std::isinf(results_[i]) && machine_.to_nearest() && machine_.accumulator->id == FormatId::fp64 &&
           std::isfinite(node_.view.y(i)) && !node_.moved.empty() && node_.moved[i] < quarter_unit;
  }

  template <class Rule>
  Errors outputs(const Rule& rule) const {
    Errors errors(results_.size());
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = rule(result(i)).value();
    return errors;
  }
  /// outputs(), but 0 where the result of one operation is known and a number of the format that it is rounded to.
  template <class Rule>
  Errors unless_held(const Rule& rule) const {
    Errors errors = outputs(rule);
    for (std::size_t i = 0; i < errors.size(); ++i)
      if (rounds_to_largest_double(i)) errors[i] = rule(Magnitude(machine_.accumulator->largest)).value();
    for (std::size_t i = 0; i < errors.size() && i < node_.moved.size(); ++i) {
      const double y = node_.view.y(i);
      const bool is_known = node_.moved[i] == 0.0 && std::isfinite(y);
      if (is_known && theorems::fits(y, *machine_.accumulator, machine_) &&
          theorems::fits(y, *machine_.output, machine_))
        errors[i] = 0.0;
    }
    return errors;
  }
  template <class Rule>
  Errors elements(const Rule& rule) const {
    Errors errors(results_.size());
    for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = rule(operand(0, i), result(i)).value();
    return errors;
  }

  Magnitude rounded(Magnitude t) const { return theorems::unrecorded_rounding(t, machine_); }
  Magnitude stored(Magnitude t) const { return theorems::unrecorded_storing(t, machine_); }
  Magnitude constant_error(double constant) const { return theorems::constant_error(constant, machine_); }

  /// Adds the rounding error of the fill value, which is a constant of the op, to the elements that a selection fills.
  void add_fill_errors(Errors& errors) const {
    const Magnitude fill_error = constant_error(fill_value(node_.view.node->op));
    if (fill_error == Magnitude()) return;
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : node_.view.inputs) shapes.push_back(input->shape);
    const std::vector<ElementSource> sources = plan_selection(node_.view.node->op, shapes, node_.view.output->shape);
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (sources[i].is_fill()) errors[i] = (Magnitude(errors[i]) + fill_error).value();
    }
  }

  Errors function(std::string_view name) const {
    const FunctionError accuracy = error_of(name, setting_, conditions_);
    return outputs([&](Magnitude f) {
      const Magnitude error = theorems::allowed_error(f, accuracy, machine_);
      return error + stored(f + error);
    });
  }

  /// Returns the factor of T-11 for the longest path of the declared order; infinite if the order is unknown or any
  /// order is requested.
  Magnitude path_factor(std::int64_t additions) const {
    const bool follows_order = !node_.any_order && machine_.order.kind != SummationOrder::Kind::unknown;
    return follows_order ? theorems::path_factor(additions, machine_) : Magnitude::infinite();
  }
  /// Returns the smaller of the factor of T-10 for `additions` roundings and `path`.
  Magnitude sum_factor(std::int64_t additions, Magnitude path) const {
    return std::min(theorems::any_order_factor(additions, machine_), path);
  }

  const UnrecordedNode& node_;
  const Setting& setting_;
  const Machine& machine_;
  std::set<std::string>& conditions_;
  std::vector<double> results_;  ///< largest magnitudes of the exact results at the run's operands
};

}  // namespace

std::vector<double> body_rounding(const UnrecordedNode& node, const Setting& setting,
                                  std::set<std::string>& conditions) {
  return std::visit(Roundings(node, setting, conditions), node.view.node->op);
}

}  // namespace driftbound::bounds
