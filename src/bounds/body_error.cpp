#include "bounds/body_error.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/accuracy.hpp"
#include "bounds/body_rounding.hpp"
#include "bounds/forward.hpp"
#include "bounds/product_node.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A value of the body: a number in double next to it, and how far the exact value and that of the run can be from it.
struct Followed {
  Tensor<double> centre;
  std::vector<double> exact, run;
};

/// A centre with an upper bound of its own distance from the op's value at the operands' centres.
struct Centre {
  Tensor<double> value;
  std::vector<double> error;
};

Centre centre_of(const Tensor<Interval>& enclosures) {
  Centre centre;
  centre.value.shape = enclosures.shape;
  for (const Interval& enclosure : enclosures.values) {
    const double middle = enclosure.is_finite() ? enclosure.midpoint() : 0.0;
    const double distance = std::max(sub_up(enclosure.upper(), middle), sub_up(middle, enclosure.lower()));
    centre.value.values.push_back(middle);
    centre.error.push_back(enclosure.is_finite() ? Magnitude(distance).value() : infinity);
  }
  return centre;
}

Tensor<Interval> as_intervals(const Tensor<double>& values) {
  return Tensor<Interval>(values.shape, std::vector<Interval>(values.values.begin(), values.values.end()));
}

/// A product in double and its error: T-10 and T-12 for float64, in whatever order.
Centre product_centre(const NodeView& view, const Shape& shape, const Setting& setting) {
  const Product product = product_of(view).value();
  const ProductPlan& plan = product.plan;
  Centre centre;
  centre.value = Tensor<double>(shape);
  const std::vector<double>& a = view.input(0).values;
  const std::vector<double>& b = view.input(1).values;
  std::size_t next = 0;
  for (std::int64_t batch = 0; batch < plan.batches; ++batch) {
    for (std::int64_t i = 0; i < plan.m; ++i) {
      double* row = centre.value.values.data() + next;
      for (std::int64_t k = 0; k < plan.k; ++k) {
        const double factor = a[plan.a_index(batch, i, k)];
        if (factor == 0.0) continue;
        for (std::int64_t j = 0; j < plan.n; ++j) row[j] += factor * b[plan.b_index(batch, k, j)];
      }
      next += static_cast<std::size_t>(plan.n);
    }
  }
  const std::vector<double> total = product_up(plan, magnitudes(a), magnitudes(b), *setting.rules, setting.threads);
  const Machine machine = machine_of(cpu_arithmetic("fp64", parse_summation_order("sequential")));
  for (const double sum : total) {
    const Magnitude error =
        any_order_factor(plan.k, machine) * Magnitude(sum) + underflow_term(plan.k, plan.k, machine);
    centre.error.push_back(sum < std::numeric_limits<double>::max() / 4.0 ? error.value() : infinity);
  }
  return centre;
}

Centre centre_of_node(const NodeView& view, const Shape& shape, const Setting& setting) {
  if (product_of(view)) return product_centre(view, shape, setting);
  std::vector<Tensor<Interval>> operands;
  for (const Tensor<double>* input : view.inputs) operands.push_back(as_intervals(*input));
  std::vector<const Tensor<Interval>*> pointers;
  for (const Tensor<Interval>& operand : operands) pointers.push_back(&operand);
  return centre_of(std::visit(scalar::OpEvaluator<Interval>(*view.node, pointers, shape), view.node->op));
}

std::vector<double> summed(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = (Magnitude(a[i]) + Magnitude(b[i])).value();
  return result;
}

class Follower {
public:
  Follower(const Graph& body, const BodyQuestion& question, const Setting& setting, std::set<std::string>& conditions)
      : body_(body), question_(question), setting_(setting), conditions_(conditions), values_(body.values.size()) {}

  void start(ValueId id, const Tensor<double>& recorded, Radii radii) {
    std::vector<double> run(radii.begin(), radii.end());
    run.resize(recorded.size(), 0.0);
    values_[id] = {recorded, std::vector<double>(recorded.size(), 0.0), std::move(run)};
  }

  /// A constant of the body, read as the accumulator holds it.
  void start_constant(ValueId id) {
    start(id, body_.value(id).constant.to_double(), {});
    if (!question_.rounds) return;
    Followed& value = values_[id];
    const Operand used = round_operand(value.centre, *setting_.machine.accumulator, setting_.machine, *setting_.rules);
    if (!used.is_exact()) value.run = used.error;
  }

  void follow(const Node& node, const Shape& shape) {
    NodeView view;
    view.node = &node;
    std::vector<Radii> exact, run;
    std::vector<std::vector<double>> flushed;
    flushed.reserve(node.inputs.size());
    for (const ValueId id : node.inputs) {
      view.inputs.push_back(&values_[id].centre);
      flushed.push_back(as_read(values_[id].run));
      exact.emplace_back(values_[id].exact);
      run.emplace_back(flushed.back());
    }
    Centre centre = centre_of_node(view, shape, setting_);
    view.output = &centre.value;
    std::vector<double> moved_run = summed(propagate(view, run, centre.error, setting_), centre.error);
    std::vector<double> moved_exact = summed(propagate(view, exact, centre.error, setting_), centre.error);
    if (question_.rounds) {
      moved_run = summed(moved_run, body_rounding({view, run, moved_run, question_.any_order}, setting_, conditions_));
      lose_what_may_overflow(centre.value, moved_run);
    }
    values_[node.output] = {std::move(centre.value), std::move(moved_exact), std::move(moved_run)};
  }

  std::vector<double> result(ValueId id) const { return summed(values_[id].exact, values_[id].run); }

private:
  /// Operations that flush read subnormal operands as 0.
  std::vector<double> as_read(std::vector<double> run) const {
    if (!question_.rounds || !setting_.machine.flushes) return run;
    const Magnitude omega(setting_.machine.accumulator->smallest_normal);
    for (double& radius : run) radius = (Magnitude(radius) + omega).value();
    return run;
  }

  /// An infinity inside a body need not show in its result.
  void lose_what_may_overflow(const Tensor<double>& centre, std::vector<double>& run) const {
    const double largest = std::min(setting_.machine.accumulator->largest, setting_.machine.output->largest);
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (!((Magnitude(centre.values[i]) + Magnitude(run[i])).value() < largest)) run[i] = infinity;
    }
  }

  const Graph& body_;
  const BodyQuestion& question_;
  const Setting& setting_;
  std::set<std::string>& conditions_;
  std::vector<Followed> values_;
};

}  // namespace

std::vector<double> body_error(const NodeView& view, const BodyQuestion& question, const Setting& setting,
                               std::set<std::string>& conditions) {
  std::vector<Shape> shapes;
  for (const Tensor<double>* input : view.inputs) shapes.push_back(input->shape);
  const Graph body = composite_body(view.node->op, shapes);
  const std::vector<Shape> inner = infer_shapes(body, shapes);
  Follower follower(body, question, setting, conditions);
  for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
    follower.start(body.inputs[slot], view.input(slot), slot < question.radii.size() ? question.radii[slot] : Radii());
  }
  for (ValueId id = 0; id < body.values.size(); ++id) {
    if (body.is_constant(id)) follower.start_constant(id);
  }
  for (const Node& node : body.nodes) follower.follow(node, inner[node.output]);
  std::vector<double> result = follower.result(body.outputs.front());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!std::isfinite(view.y(i))) result[i] = infinity;
  }
  return result;
}

}  // namespace driftbound::bounds
