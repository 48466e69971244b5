#include "bounds/nodes/body_error.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/kernels/element_kernels.hpp"
#include "bounds/nodes/body_rounding.hpp"
#include "bounds/nodes/centre.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/normed_values.hpp"
#include "bounds/nodes/squares_in_run.hpp"
#include "bounds/sums/operand.hpp"
#include "bounds/theorems/bodies.hpp"
#include "bounds/theorems/propagation.hpp"
#include "driftbound/model/composite.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {
namespace {

/// A value of the body: a centre in double, and bounds of the distance of the exact value and of the run's value from
/// it.
struct Followed {
  Tensor<double> centre;
  std::vector<double> exact, run;
  std::vector<double> least;     ///< lower bounds of the run's value; empty: not known
  std::vector<double> rounding;  ///< what the run's roundings of the node itself, and that of the centre, make of `run`
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
        squares_(body,
                 [this](ValueId id) {
                   return RunValue{&values_[id].centre, values_[id].run, values_[id].least};
                 }),
        values_(body.values.size()) {
    if (!setting.machine.stores_inside) inside_.machine.output = inside_.machine.accumulator;
  }

  void start(ValueId id, const Tensor<double>& recorded, Radii radii) {
    std::vector<double> run(radii.begin(), radii.end());
    run.resize(recorded.size(), 0.0);
    values_[id] = {recorded, std::vector<double>(recorded.size(), 0.0), std::move(run), {}, {}};
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
    squares_.limit(view, moved_run);
    if (!setting_.machine.flushes) limit_by_common_factor(view, moved_run);
    std::vector<double> moved_exact = propagate(view, exact, centre.error, setting_);
    add_magnitudes(moved_run, centre.error);
    add_magnitudes(moved_exact, centre.error);
    normed_.limit(view, moved_exact);
    if (!request_.rounds) normed_.limit(view, moved_run);
    std::vector<double> least, rounding = centre.error;
    if (request_.rounds) {
      const Setting& setting = node.output == body_.outputs.front() ? setting_ : inside_;
      UnrecordedNode unrecorded{view, run, moved_run, request_.any_order};
      unrecorded.sums_are_exact = request_.sums_are_exact;
      unrecorded.sums_squares = squares_.is_of_squares(node);
      least = squares_.least(node, shape, request_.sums_are_exact, setting);
      const std::vector<double> own = body_rounding(unrecorded, setting, conditions_);
      add_magnitudes(moved_run, own);
      add_magnitudes(rounding, own);
      squares_.add_merges(view, request_.sums_are_exact, setting, moved_run);
      // Where the one rounding of these may overflow, its own error is infinite.
      const bool rounds_once =
          std::visit([]<class T>(const T&) { return OneOf<T, op::Add, op::Sub, op::Mul, op::Div>; }, node.op);
      if (!rounds_once) lose_what_may_overflow(centre.value, setting.machine, moved_run);
    }
    values_[node.output] = {std::move(centre.value), std::move(moved_exact), std::move(moved_run), std::move(least),
                            std::move(rounding)};
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

  /// The product that a value is, or null.
  const Node* product(ValueId id) const {
    const auto makes = [&](const Node& node) { return node.output == id; };
    const auto node = std::find_if(body_.nodes.begin(), body_.nodes.end(), makes);
    return node != body_.nodes.end() && std::holds_alternative<op::Mul>(node->op) ? &*node : nullptr;
  }

  /// Limits what a difference of two products with a common factor changes.
  void limit_by_common_factor(const NodeView& view, std::vector<double>& moved) const {
    if (!std::holds_alternative<op::Sub>(view.node->op)) return;
    const ValueId left = view.node->inputs[0], right = view.node->inputs[1];
    const Node *p = product(left), *q = product(right);
    if (p == nullptr || q == nullptr) return;
    for (const std::size_t i : {0U, 1U})
      for (const std::size_t j : {0U, 1U})
        if (p->inputs[i] == q->inputs[j])
          limit_by_common_factor(view, {left, right, p->inputs[1 - i], q->inputs[1 - j], p->inputs[i]}, moved);
  }
  /// `ids`: a r, b r, a, b and r
  void limit_by_common_factor(const NodeView& view, const std::array<ValueId, 5>& ids,
                              std::vector<double>& moved) const {
    std::vector<BroadcastIndex> indices;
    for (const ValueId id : ids) indices.emplace_back(values_[id].centre.shape, view.output->shape);
    const auto centre = [&](std::size_t k, std::size_t e) { return values_[ids[k]].centre.values[indices[k](e)]; };
    const auto radius = [&](std::size_t k, std::size_t e) { return Magnitude(values_[ids[k]].run[indices[k](e)]); };
    const auto rounding = [&](std::size_t k, std::size_t e) {
      return Magnitude(values_[ids[k]].rounding[indices[k](e)]);
    };
    for (std::size_t e = 0; e < moved.size(); ++e) {
      if (!radius(0, e).is_finite() || !radius(1, e).is_finite()) continue;  // a product may overflow
      const Magnitude by_factor = theorems::propagate_common_factor(centre(2, e), radius(2, e), centre(3, e),
                                                                    radius(3, e), centre(4, e), radius(4, e));
      moved[e] = std::min(moved[e], (by_factor + rounding(0, e) + rounding(1, e)).value());
    }
  }

  /// Sets the run's radii to infinity where a value may overflow. An overflow inside a body may not be visible in its
  /// result.
  static void lose_what_may_overflow(const Tensor<double>& centre, const Machine& machine, std::vector<double>& run) {
    const double largest = std::min(machine.accumulator->largest, machine.output->largest);
    const Magnitude most = Magnitude(largest_magnitude(centre.values)) + Magnitude(largest_magnitude(run));
    if (most.value() <= largest) return;
    for (std::size_t i = 0; i < run.size(); ++i) {
      if (!((Magnitude(centre.values[i]) + Magnitude(run[i])).value() <= largest)) run[i] = infinity;
    }
  }

  const Graph& body_;
  const BodyRequest& request_;
  const Setting& setting_;
  Setting inside_;  ///< of nodes whose results stay inside the composite
  std::set<std::string>& conditions_;
  NormedValues normed_;
  SquaresInRun squares_;
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
