#include "bounds/nodes/body_error.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/normed_values.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/bodies.hpp"
#include "driftbound/model/composite.hpp"

namespace driftbound::bounds {
namespace {

/// A value of the body: a centre in double, and bounds of the distance of the exact value and of the run's value from
/// it.
struct Followed {
  Tensor<double> centre;
  std::vector<double> exact, run;
};

double largest_magnitude(std::span<const double> x) {
  double largest = 0.0;
  for (const double value : x) largest = std::max(largest, Magnitude(value).value());
  return largest;
}

/// Returns the radii, or an empty span (which is cheaper to propagate) if all are 0.
Radii unless_zero(const std::vector<double>& radii) {
  const bool is_zero = std::all_of(radii.begin(), radii.end(), [](double r) { return r == 0.0; });
  return is_zero ? Radii() : Radii(radii);
}

/// Propagates centres and their errors through a body, node by node.
class Follower {
public:
  Follower(const Graph& body, const BodyRequest& request, const Setting& setting, std::set<std::string>& conditions)
      : body_(body),
        request_(request),
        setting_(setting),
        inside_(setting),
        conditions_(conditions),
        normed_(body),
        values_(body.values.size()) {
    if (!setting.machine.stores_inside) inside_.machine.output = inside_.machine.accumulator;
  }

  void start(ValueId id, const Tensor<double>& recorded, Radii radii) {
    std::vector<double> run(radii.begin(), radii.end());
    run.resize(recorded.size(), 0.0);
    values_[id] = {recorded, std::vector<double>(recorded.size(), 0.0), std::move(run)};
  }

  /// Sets a constant of the body. In the run it is rounded to the accumulator.
  void start_constant(ValueId id) {
    start(id, body_.value(id).constant.to_double(), {});
    if (!request_.rounds) return;
    Followed& value = values_[id];
    const Operand used = round_operand(value.centre, *setting_.machine.accumulator, setting_.machine);
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
      exact.push_back(unless_zero(values_[id].exact));
      run.push_back(unless_zero(flushed.back()));
    }
    Centre centre = centre_of_node(view, shape, setting_);
    view.output = &centre.value;
    std::vector<double> moved_run = propagate(view, run, centre.error, setting_);
    std::vector<double> moved_exact = propagate(view, exact, centre.error, setting_);
    add_magnitudes(moved_run, centre.error);
    add_magnitudes(moved_exact, centre.error);
    normed_.limit(view, moved_exact);
    if (!request_.rounds) normed_.limit(view, moved_run);
    if (request_.rounds) {
      const Setting& setting = node.output == body_.outputs.front() ? setting_ : inside_;
      UnrecordedNode unrecorded{view, run, moved_run, request_.any_order};
      unrecorded.sums_are_exact = request_.sums_are_exact;
      add_magnitudes(moved_run, body_rounding(unrecorded, setting, conditions_));
      lose_what_may_overflow(centre.value, setting.machine, moved_run);
    }
    values_[node.output] = {std::move(centre.value), std::move(moved_exact), std::move(moved_run)};
  }

  std::vector<double> result(ValueId id) && {
    add_magnitudes(values_[id].run, values_[id].exact);
    return std::move(values_[id].run);
  }

private:
  /// Returns the radii of an operand as read. If the arithmetic flushes, subnormal operands are read as 0: omega is
  /// added.
  std::vector<double> as_read(std::vector<double> run) const {
    if (!request_.rounds || !setting_.machine.flushes) return run;
    const Magnitude omega(setting_.machine.accumulator->smallest_normal);
    for (double& radius : run) radius = (Magnitude(radius) + omega).value();
    return run;
  }

  /// Sets the run's radii to infinity where a value may overflow. An overflow inside a body may not be visible in its
  /// result.
  static void lose_what_may_overflow(const Tensor<double>& centre, const Machine& machine, std::vector<double>& run) {
    const double largest = std::min(machine.accumulator->largest, machine.output->largest);
    const Magnitude most = Magnitude(largest_magnitude(centre.values)) + Magnitude(largest_magnitude(run));
    if (most.value() < largest) return;
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (!((Magnitude(centre.values[i]) + Magnitude(run[i])).value() < largest)) run[i] = infinity;
    }
  }

  const Graph& body_;
  const BodyRequest& request_;
  const Setting& setting_;
  Setting inside_;  ///< of nodes whose results stay inside the composite
  std::set<std::string>& conditions_;
  NormedValues normed_;
  std::vector<Followed> values_;
};

/// Returns upper bounds of |y - f(x)| for one body.
std::vector<double> error_of_body(const Graph& body, const std::vector<Shape>& shapes, const NodeView& view,
                                  const BodyRequest& request, const Setting& setting,
                                  std::set<std::string>& conditions) {
  const std::vector<Shape> inner = infer_shapes(body, shapes);
  Follower follower(body, request, setting, conditions);
  for (std::size_t slot = 0; slot < view.inputs.size(); ++slot) {
    follower.start(body.inputs[slot], view.input(slot), slot < request.radii.size() ? request.radii[slot] : Radii());
  }
  for (ValueId id = 0; id < body.values.size(); ++id) {
    if (body.is_constant(id)) follower.start_constant(id);
  }
  for (const Node& node : body.nodes) follower.follow(node, inner[node.output]);
  return std::move(follower).result(body.outputs.front());
}

}  // namespace

std::vector<double> body_error(const NodeView& view, const BodyRequest& request, const Setting& setting,
                               std::set<std::string>& conditions) {
  std::vector<Shape> shapes;
  for (const Tensor<double>* input : view.inputs) shapes.push_back(input->shape);
  const bool takes_any_steps = request.rounds && !setting.is_own_run;
  const std::vector<Graph> bodies = takes_any_steps ? theorems::foreign_bodies(view.node->op, shapes)
                                                    : std::vector<Graph>{composite_body(view.node->op, shapes)};
  std::vector<double> result(view.output->size(), 0.0);
  for (const Graph& body : bodies) {
    const std::vector<double> error = error_of_body(body, shapes, view, request, setting, conditions);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::max(result[i], error[i]);
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!std::isfinite(view.y(i))) result[i] = infinity;
  }
  return result;
}

}  // namespace driftbound::bounds
