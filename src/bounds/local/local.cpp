#include "bounds/local/local.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <string_view>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/nodes/accuracy.hpp"
#include "bounds/nodes/body_error.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/own_run.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/sums/number_terms.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/sums/running_sums.hpp"
#include "bounds/theorems/functions.hpp"
#include "bounds/theorems/op_traits.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/softmax.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/bounds/theorems.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {
namespace {

/// A node with its operands as the operation reads them (T-13), and the errors of reading them.
struct Reading {
  std::deque<Tensor<double>> used;                ///< the operands that may differ from the recorded ones
  std::vector<std::vector<double>> errors;        ///< by operand: upper bounds of |read - recorded|; empty: 0
  NodeView view;                                  ///< the node with the operands as read
  std::vector<std::vector<double>> used_or_zero;  ///< by operand, as in Operand
  bool is_exact = true;
};

Reading read_operands(const NodeView& view, const Setting& setting) {
  Reading reading;
  reading.view = view;
  reading.errors.resize(view.inputs.size());
  reading.used_or_zero.resize(view.inputs.size());
  for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
    const Tensor<double>& recorded = view.input(slot);
    if (are_read_as_they_are(recorded.values, *setting.machine.accumulator, setting.machine)) continue;
    Operand operand = round_operand(recorded, *setting.machine.accumulator, setting.machine);
    reading.is_exact = reading.is_exact && operand.is_exact();
    reading.errors[slot] = std::move(operand.error);
    reading.used_or_zero[slot] = std::move(operand.used_or_zero);
    reading.view.inputs[slot] = &reading.used.emplace_back(Tensor<double>(recorded.shape, std::move(operand.used)));
  }
  return reading;
}

/// Computes bounds of the rounding errors of one node for the operands as read. Each overload handles one op.
class Rounded {
public:
  Rounded(const NodeView& view, const Setting& setting, LocalBound& result)
      : view_(view), setting_(setting), result_(result), machine_(setting.machine) {
    result_.any_order.reserve(view.output->size());
  }

  void operator()(const op::Add&) { add_or_subtract(); }
  void operator()(const op::Sub&) { add_or_subtract(); }
  void operator()(const op::Mul&) {
    binary([&](double a, double b, double y) {
      const bool is_exact = a == 0.0 || b == 0.0 || std::abs(a) == 1.0 || std::abs(b) == 1.0;
      return is_exact ? theorems::storing_error(y, machine_) : theorems::rounding_error(y, machine_);
    });
  }
  void operator()(const op::Div&) {
    binary([&](double a, double b, double y) {
      const bool is_exact = a == 0.0 || std::abs(b) == 1.0;
      return is_exact ? theorems::storing_error(y, machine_) : theorems::rounding_error(y, machine_);
    });
  }
  template <ElementwiseUnary F>
  void operator()(const F&) {
    using Traits = OpTraits<F>;
    static_assert(Traits::evaluation != Evaluation::special, "a rule of its own is missing below");
    if constexpr (Traits::evaluation == Evaluation::copied) copies();
    if constexpr (Traits::evaluation == Evaluation::rounded)
      unary([&](double, double y) { return theorems::rounding_error(y, machine_); });
    if constexpr (Traits::evaluation == Evaluation::called) function(Traits::accuracy);
  }
  void operator()(const op::Cast& cast) {
    const Format& target = format_of(cast.to);
    result_.theorem = "T-14";
    unary([&](double x, double y) {
      const Magnitude stored = theorems::storing_error(y, machine_);
      if (theorems::fits(x, target, machine_)) return stored;
      const Magnitude before_storing = Magnitude(y) + stored;
      const Magnitude rounded = theorems::cast_error(before_storing.value(), target, machine_);
      const bool may_be_flushed = machine_.flushes && y == 0.0;
      return stored + (may_be_flushed ? std::max(rounded, Magnitude(target.smallest_normal)) : rounded);
    });
  }
  void operator()(const op::LeakyRelu& leaky) {
    result_.theorem = "T-18";
    unary([&](double x, double y) { return theorems::leaky_relu_error(x, y, leaky.alpha, machine_); });
  }
  void operator()(const op::Elu& elu) {
    result_.theorem = "T-18";
    const FunctionError accuracy = error_of("expm1", setting_, result_.conditions);
    if (setting_.is_own_run)
      return unary([&](double x, double y) { return theorems::elu_error(x, y, elu.alpha, accuracy, machine_); });
    const FunctionError exp = error_of_exp_in_elu(setting_, result_.conditions);
    unary([&](double x, double y) { return theorems::foreign_elu_error(x, y, elu.alpha, accuracy, exp, machine_); });
  }
  void operator()(const op::Sigmoid&) {
    if (setting_.is_own_run) return function("sigmoid");
    result_.theorem = "T-16";
    const FunctionError accuracy = error_of("sigmoid", setting_, result_.conditions);
    unary([&](double x, double y) { return theorems::foreign_sigmoid_error(x, y, accuracy, machine_); });
  }
  void operator()(const op::Sqrt&) {
    error_of("sqrt", setting_, result_.conditions);
    if (!is_correctly_rounded(setting_.arithmetic->accuracy("sqrt"))) return function("sqrt");
    unary([&](double, double y) { return theorems::rounding_error(y, machine_); });
  }
  void operator()(const op::Exp&) {
    function_where("exp", [this](double x) { return theorems::exp_is_covered(x, machine_); });
  }
  void operator()(const op::Sinh&) {
    function_where("sinh", [this](double x) { return theorems::exp_is_covered(std::abs(x), machine_); });
  }
  void operator()(const op::Cosh&) {
    function_where("cosh", [this](double x) { return theorems::exp_is_covered(std::abs(x), machine_); });
  }
  void operator()(const op::Pow& pow) {
    function_where("pow", [&](double x) { return theorems::power_is_covered(x, pow.exponent, machine_); });
  }
  void operator()(const op::Clip& clip) {
    const Magnitude constants = constant_error(clip.least) + constant_error(clip.most);
    unary([&](double, double y) { return theorems::storing_error(y, machine_) + constants; });
  }
  /// If alpha is rounded, the function jumps at another argument than the exact one: there is no finite bound.
  void operator()(const op::ThresholdedRelu& relu) {
    const bool jumps_in_place = constant_error(relu.alpha) == Magnitude();
    unary([&](double, double y) {
      return jumps_in_place ? theorems::storing_error(y, machine_) : Magnitude::infinite();
    });
  }
  void operator()(const OneOf<op::Min, op::Max> auto&) {
    binary([&](double, double, double y) { return theorems::storing_error(y, machine_); });
  }
  /// The results 0 and 1 are exact in every format.
  void operator()(const Comparison auto&) {
    binary([](double, double, double) { return Magnitude(); });
  }
  /// The operand that is not selected has no influence and need not be finite.
  void operator()(const op::Choice&) {
    const Shape& shape = view_.output->shape;
    const BroadcastIndex in_c(view_.input(0).shape, shape), in_a(view_.input(1).shape, shape);
    const BroadcastIndex in_b(view_.input(2).shape, shape);
    for (std::size_t i = 0; i < view_.output->size(); ++i) {
      const double c = view_.input(0).values[in_c(i)];
      const double taken = c > 0.5 ? view_.input(1).values[in_a(i)] : view_.input(2).values[in_b(i)];
      const bool fits = theorems::fits(taken, *machine_.output, machine_);
      push(std::isfinite(c) && std::isfinite(taken), view_.y(i),
           [&](double y) { return fits ? Magnitude() : theorems::storing_error(y, machine_); });
    }
  }
  void operator()(const op::PRelu&) {
    binary([&](double x, double slope, double y) {
      const bool is_exact = x >= 0.0 || slope == 0.0 || std::abs(slope) == 1.0;
      return is_exact ? theorems::storing_error(y, machine_) : theorems::rounding_error(y, machine_);
    });
  }
  void operator()(const OneOf<op::ReduceMax, op::ReduceMin> auto&) {
    groups([&](std::span<const double>, double y) { return theorems::storing_error(y, machine_).value(); },
           result_.any_order);
  }
  void operator()(const op::ReduceSum&);
  void operator()(const op::Softmax& softmax);

  // Selections copy elements; only storing them can round.
  void operator()(const Selection auto&) { moves(); }

  // Propagates the errors through the body, node by node.
  void operator()(const Composite auto&) {
    result_.theorem = result_.order_theorem = "T-22";
    BodyRequest request;
    result_.any_order = body_error(view_, request, setting_, result_.conditions);
    if (!setting_.is_own_run) result_.conditions.merge(steps_conditions(view_.node->op, "steps"));
    if (machine_.tensor_core) result_.conditions.insert(matrix_unit_condition(*machine_.tensor_core));
    if (machine_.order.kind == SummationOrder::Kind::unknown) return;
    request.any_order = false;
    result_.order_aware = body_error(view_, request, setting_, result_.conditions);
    for (std::size_t i = 0; i < result_.order_aware.size(); ++i) {
      result_.order_aware[i] = std::min(result_.order_aware[i], result_.any_order[i]);
    }
  }

  // Matrix products: see product_bounds() in product_node.hpp.
  void operator()(const op::Gemm&) {}
  void operator()(const op::MatMul&) {}

private:
  /// The results are operands up to sign, 0, ±1 or integers: only storing them can round.
  void copies() {
    const bool fits = operands_fit_output();
    unary([&](double, double y) { return fits ? Magnitude() : theorems::storing_error(y, machine_); });
  }

  void moves() {
    const bool fits = operands_fit_output();
    std::vector<Shape> shapes;
    for (const Tensor<double>* input : view_.inputs) shapes.push_back(input->shape);
    const std::vector<ElementSource> sources = plan_selection(view_.node->op, shapes, view_.output->shape);
    const double fill = fill_value(view_.node->op);
    const Magnitude fill_error = constant_error(fill);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const ElementSource& source = sources[i];
      if (source.is_fill()) {
        push(std::isfinite(fill), view_.y(i),
             [&](double y) { return fill_error + theorems::storing_error(y, machine_); });
        continue;
      }
      const double x = view_.input(source.input).values[source.index];
      push(std::isfinite(x), view_.y(i),
           [&](double y) { return fits ? Magnitude() : theorems::storing_error(y, machine_); });
    }
  }

  bool operands_fit_output() const {
    return std::all_of(view_.inputs.begin(), view_.inputs.end(), [&](const Tensor<double>* input) {
      const bool is_plain = machine_.output->id == machine_.accumulator->id;
      if (is_plain && are_read_as_they_are(input->values, *machine_.output, machine_)) return true;
      return std::all_of(input->values.begin(), input->values.end(),
                         [&](double x) { return theorems::fits(x, *machine_.output, machine_); });
    });
  }

  Magnitude constant_error(double constant) const { return theorems::constant_error(constant, machine_); }

  /// Appends rule(terms, y) for every group of a reduction; infinity if a term or y is not finite.
  template <class Rule>
  void groups(const Rule& rule, std::vector<double>& bounds) {
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    std::vector<double> terms(plan.elements.size());
    for (std::size_t g = 0; g < view_.output->size(); ++g) {
      bool is_finite = std::isfinite(view_.y(g));
      for (std::size_t j = 0; j < terms.size(); ++j) {
        terms[j] = view_.input(0).values[plan.groups[g] + plan.elements[j]];
        is_finite = is_finite && std::isfinite(terms[j]);
      }
      bounds.push_back(is_finite ? rule(terms, view_.y(g)) : infinity);
    }
  }

  template <class Rule>
  void unary(const Rule& rule) {
    const std::vector<double>& x = view_.input(0).values;
    for (std::size_t i = 0; i < x.size(); ++i)
      push(std::isfinite(x[i]), view_.y(i), [&](double y) { return rule(x[i], y); });
  }

  template <class Rule>
  void binary(const Rule& rule) {
    const Tensor<double>& a = view_.input(0);
    const Tensor<double>& b = view_.input(1);
    const BroadcastIndex a_index(a.shape, view_.output->shape);
    const BroadcastIndex b_index(b.shape, view_.output->shape);
    for (std::size_t i = 0; i < view_.output->size(); ++i) {
      const double p = a.values[a_index(i)], q = b.values[b_index(i)];
      push(std::isfinite(p) && std::isfinite(q), view_.y(i), [&](double y) { return rule(p, q, y); });
    }
  }

  template <class Rule>
  void push(bool operands_are_finite, double y, const Rule& rule) {
    result_.any_order.push_back(operands_are_finite && std::isfinite(y) ? rule(y).value() : infinity);
  }

  void add_or_subtract() {
    binary([&](double a, double b, double y) {
      const bool is_exact = a == 0.0 || b == 0.0;
      return is_exact ? theorems::storing_error(y, machine_) : theorems::addition_error(y, machine_);
    });
  }

  void function(std::string_view name) {
    result_.theorem = "T-16";
    const FunctionError accuracy = error_of(name, setting_, result_.conditions);
    unary([&](double, double y) { return theorems::function_error(y, accuracy, machine_); });
  }

  /// The bound of function() for arguments for which the function certainly does not overflow (T-20); infinite for
  /// others.
  template <class IsCovered>
  void function_where(std::string_view name, IsCovered is_covered) {
    result_.theorem = "T-16";
    const FunctionError accuracy = error_of(name, setting_, result_.conditions);
    unary([&](double x, double y) {
      return is_covered(x) ? theorems::function_error(y, accuracy, machine_) : Magnitude::infinite();
    });
  }

  const NodeView& view_;
  const Setting& setting_;
  LocalBound& result_;
  const Machine& machine_;
};

void Rounded::operator()(const op::Softmax& softmax) {
  const FunctionError accuracy = error_of("exp", setting_, result_.conditions);
  const ReductionPlan plan = plan_reduction(softmax, view_.output->shape);
  const auto length = static_cast<std::size_t>(plan.length);
  const bool order_is_known = machine_.order.kind != SummationOrder::Kind::unknown;
  const Magnitude any_order = theorems::any_order_factor(plan.length - 1, machine_);
  const Magnitude by_height =
      order_is_known ? theorems::path_factor(theorems::sum_height(machine_.order, plan.length), machine_) : any_order;
  result_.theorem = result_.order_theorem = "T-17";
  result_.any_order.assign(view_.output->size(), infinity);
  if (order_is_known) result_.order_aware.assign(view_.output->size(), infinity);
  std::vector<double> x(length), p(length), bound(length);
  for (std::int64_t o = 0; o < plan.outer; ++o) {
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      const auto index = [&](std::size_t j) { return plan.index(o, static_cast<std::int64_t>(j), i); };
      bool is_finite = true;
      for (std::size_t j = 0; j < length; ++j) {
        x[j] = view_.input(0).values[index(j)];
        p[j] = view_.y(index(j));
        is_finite = is_finite && std::isfinite(x[j]) && std::isfinite(p[j]);
      }
      if (!is_finite) continue;
      theorems::softmax_error(x, p, accuracy, any_order, machine_, bound);
      for (std::size_t j = 0; j < length; ++j) result_.any_order[index(j)] = bound[j];
      if (!order_is_known) continue;
      theorems::softmax_error(x, p, accuracy, std::min(any_order, by_height), machine_, bound);
      for (std::size_t j = 0; j < length; ++j) result_.order_aware[index(j)] = bound[j];
    }
  }
}

TermSizes sizes_of(std::span<const double> terms) {
  NumberTerms numbers;
  for (const double x : terms) numbers.add(x);
  return numbers.sizes();
}

/// T-69 for a sum of numbers (no products): all roundings except the last. `before` bounds them in any order.
Magnitude running_error(std::span<const double> terms, const TermSizes& sizes, Magnitude before,
                        const Setting& setting) {
  const auto length = static_cast<std::int64_t>(terms.size());
  const ProductPlan plan = plan_product(op::MatMul{}, {1, length}, {length, 1});
  SummationOrder order = setting.machine.order;
  order.fma = false;
  const std::vector<double> ones(terms.size(), 1.0);
  const std::vector<double> slack{theorems::running_slack(length, before.value(), 0.0, sizes.total.value())};
  const RunningTerms running{terms, ones, terms, slack};
  return Magnitude(setting.machine.u) * Magnitude(theorems::running_ufps(plan, running, order, true, 1)[0]);
}

/// T-10, T-11, T-68 and T-69 for sums of numbers (no products). The rounding of the last addition is bounded by means
/// of the stored result.
void Rounded::operator()(const op::ReduceSum&) {
  const auto bound = [&](std::span<const double> terms, double y, const auto& before_last) {
    const TermSizes sizes = sizes_of(terms);
    if (sizes.leaves < 2) return theorems::storing_error(y, machine_).value();
    const Magnitude underflow = theorems::underflow_term(0, sizes.leaves, machine_);
    const Magnitude any_order = theorems::any_order_factor(sizes.leaves - 2, machine_) * sizes.total + underflow;
    const Magnitude error = before_last(terms, sizes, any_order, underflow, y);
    if (!theorems::cannot_overflow(sizes.total, error, machine_)) return infinity;
    return (error + theorems::addition_error(y, machine_)).value();
  };
  const auto by_partial_sums = [&](TermSizes sizes, Magnitude any_order, Magnitude underflow, double y) {
    sizes.underflow = underflow;
    sizes.sum = Magnitude(y) + any_order + theorems::addition_error(y, machine_);
    return std::min(any_order, theorems::partial_sums_error(sizes, machine_));
  };
  result_.theorem = "T-10";
  result_.order_theorem = "T-11";
  using Terms = std::span<const double>;
  const auto fill = [&](std::vector<double>& bounds, const auto& before_last) {
    groups([&](Terms terms, double y) { return bound(terms, y, before_last); }, bounds);
  };
  fill(result_.any_order, [](Terms, const TermSizes&, Magnitude any_order, Magnitude, double) { return any_order; });
  const bool has_partial_sums = machine_.to_nearest() && !machine_.flushes;
  if (has_partial_sums) {
    fill(result_.partial_sums, [&](Terms, const TermSizes& sizes, Magnitude any_order, Magnitude underflow, double y) {
      return by_partial_sums(sizes, any_order, underflow, y);
    });
  }
  if (machine_.order.kind == SummationOrder::Kind::unknown) return;
  fill(result_.order_aware, [&](Terms terms, const TermSizes& sizes, Magnitude any_order, Magnitude underflow, double) {
    const auto length = static_cast<std::int64_t>(terms.size());
    const Magnitude path = theorems::path_factor(theorems::sum_height(machine_.order, length) - 1, machine_);
    return std::min(any_order, path * sizes.total + underflow);
  });
  if (!has_partial_sums || !setting_.wants_running || !machine_.order.gives_partial_sums()) return;
  fill(result_.running, [&](Terms terms, const TermSizes& sizes, Magnitude any_order, Magnitude underflow, double y) {
    return running_error(terms, sizes, by_partial_sums(sizes, any_order, underflow, y), setting_) + underflow;
  });
}

void add_to(std::vector<double>& bounds, const std::vector<double>& more) {
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = (Magnitude(bounds[i]) + Magnitude(more[i])).value();
}

}  // namespace

std::vector<double> LocalBound::best() const {
  std::vector<double> smallest = any_order;
  for (const std::vector<double>* other : {&partial_sums, &order_aware, &running}) {
    for (std::size_t i = 0; i < other->size(); ++i) smallest[i] = std::min(smallest[i], (*other)[i]);
  }
  return smallest;
}

namespace {

/// T-13 for nodes that are not matrix products. Adds the propagated reading errors to the bounds: first those from the
/// recorded operands to `used`, then those to 0 for operands that may be flushed. What reading makes is known to the last
/// digit, and may be all that there is: a little is added, as no reference can tell a bound from an error that equals it.
void add_reading(const Reading& reading, const Setting& setting, LocalBound& result) {
  const Magnitude a_little_more(1.0 + 0x1p-30);
  const auto add = [&](const std::vector<std::vector<double>>& distances) {
    const std::vector<Radii> radii(distances.begin(), distances.end());
    for (std::vector<double>* bound : {&result.any_order, &result.partial_sums, &result.running, &result.order_aware}) {
      if (bound->empty()) continue;
      std::vector<double> moved = propagate(reading.view, radii, *bound, setting);
      for (double& distance : moved) distance = (Magnitude(distance) * a_little_more).value();
      add_to(*bound, moved);
    }
  };
  if (reading.is_exact) return;
  add(reading.errors);
  const auto is_empty = [](const std::vector<double>& distances) { return distances.empty(); };
  if (!std::all_of(reading.used_or_zero.begin(), reading.used_or_zero.end(), is_empty)) add(reading.used_or_zero);
}

}  // namespace

LocalBound local_bound(const NodeView& view, const Setting& setting) {
  LocalBound result;
  if (!setting.is_own_run) result.conditions.insert(arithmetic_condition(*setting.arithmetic));
  if (const std::optional<Product> product = product_of(view)) {
    ProductBounds bounds = product_bounds(*product, view, setting);
    result.any_order = std::move(bounds.any_order);
    result.partial_sums = std::move(bounds.partial_sums);
    result.running = std::move(bounds.running);
    result.order_aware = std::move(bounds.order_aware);
    result.probabilistic = std::move(bounds.probabilistic);
    result.patterns = std::move(bounds.patterns);
    result.kappa = std::move(bounds.kappa);
    result.sums = std::move(bounds.sums);
    result.theorem = setting.machine.tensor_core ? "T-21" : "T-10";
    if (setting.machine.tensor_core) result.conditions.insert(matrix_unit_condition(*setting.machine.tensor_core));
    result.order_theorem = "T-11";
    return result;
  }
  result.theorem = "T-15";
  const Reading reading = read_operands(view, setting);
  std::visit(Rounded(reading.view, setting, result), view.node->op);
  add_reading(reading, setting, result);
  return result;
}

}  // namespace driftbound::bounds
