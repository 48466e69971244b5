#include "bounds/boxes/box_node.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/forward.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/theorems/boxes.hpp"
#include "bounds/theorems/slope_ranges.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::bounds {
namespace {

class OverBox {
public:
  OverBox(const NodeView& view, const std::vector<BoxOperand>& operands, Radii y_range, const Setting& setting)
      : view_(view), operands_(operands), y_range_(y_range), setting_(setting) {
    result_.slopes.resize(view.inputs.size());
    result_.remainder.assign(view.output->size(), 0.0);
    result_.moved.assign(view.output->size(), 0.0);
  }

  /// Linear ops have the same Jacobian at every point and no remainder.
  BoxNode operator()(const OneOf<op::Add, op::Sub, op::ReduceSum, op::Neg, op::Cast> auto&) { return linear(); }
  BoxNode operator()(const Selection auto&) { return linear(); }

  template <ElementwiseUnary Op>
  requires(!OneOf<Op, op::Neg, op::Cast>) BoxNode operator()(const Op&) {
    result_.slopes[0].resize(view_.output->size());
    result_.lipschitz = Magnitude();
    for (std::size_t i = 0; i < view_.output->size(); ++i) {
      const Interval range = theorems::slope_range(view_.node->op, range_of(0, i));
      add(0, i, i, range);
      result_.lipschitz = std::max(result_.lipschitz, range.magnitude());
    }
    return std::move(result_);
  }

  template <ElementwiseBinary Op>
  requires(!OneOf<Op, op::Add, op::Sub>) BoxNode operator()(const Op&) {
    const BroadcastIndex a(view_.input(0).shape, view_.output->shape), b(view_.input(1).shape, view_.output->shape);
    for (std::vector<double>& slopes : result_.slopes) slopes.resize(view_.output->size());
    for (std::size_t i = 0; i < view_.output->size(); ++i) {
      const std::array<Interval, 2> ranges =
          theorems::slope_ranges(view_.node->op, range_of(0, a(i)), range_of(1, b(i)));
      add(0, i, a(i), ranges[0]);
      add(1, i, b(i), ranges[1]);
    }
    return std::move(result_);
  }

  /// If the condition is undecided but has no error, both trajectories take the same operand: the slopes are in [0, 1].
  BoxNode operator()(const op::Choice&) {
    const std::array<BroadcastIndex, 3> index = {BroadcastIndex(view_.input(0).shape, view_.output->shape),
                                                 BroadcastIndex(view_.input(1).shape, view_.output->shape),
                                                 BroadcastIndex(view_.input(2).shape, view_.output->shape)};
    for (std::vector<double>& slopes : result_.slopes) slopes.resize(view_.output->size());
    for (std::size_t i = 0; i < view_.output->size(); ++i) {
      const Interval c = range_of(0, index[0](i));
      const bool takes_first = c.lower() > 0.5, takes_second = c.upper() <= 0.5;
      const Interval either(0.0, 1.0);
      add(0, i, index[0](i), takes_first || takes_second ? Interval(0.0) : Interval::whole());
      add(1, i, index[1](i), takes_first ? Interval(1.0) : takes_second ? Interval(0.0) : either);
      add(2, i, index[2](i), takes_second ? Interval(1.0) : takes_first ? Interval(0.0) : either);
    }
    return std::move(result_);
  }

  BoxNode operator()(const op::ReduceMax&) { return extremum(1.0); }
  BoxNode operator()(const op::ReduceMin&) { return extremum(-1.0); }

  BoxNode operator()(const op::Softmax& op) {
    const ReductionPlan plan = plan_reduction(op, view_.output->shape);
    for (std::int64_t o = 0; o < plan.outer; ++o) {
      for (std::int64_t i = 0; i < plan.inner; ++i) softmax_row(plan, o, i);
    }
    return std::move(result_);
  }

  /// The Jacobian at the centre maps (E_A, E_B) to E_A c_B + c_A E_B. The remainder is E_A B_B + B_A E_B + E_A E_B,
  /// with B the ranges.
  BoxNode operator()(const OneOf<op::Gemm, op::MatMul> auto&) {
    const Product product = product_of(view_).value();
    result_.moved = propagate_product_node(product, view_, errors(), setting_);
    if (any_is_cut()) result_.remainder = propagate_product_node(product, view_, errors_of_cut_operands(), setting_);
    const auto add_crossed = [&](Radii a, Radii b, bool has_moved) {
      const std::vector<double> crossed = product_up(product.plan, a, b, setting_.threads);
      for (std::size_t i = 0; i < crossed.size(); ++i) {
        const Magnitude more = theorems::crossed(product.alpha, crossed[i]);
        result_.remainder[i] = (Magnitude(result_.remainder[i]) + more).value();
        if (!has_moved) result_.moved[i] = (Magnitude(result_.moved[i]) + more).value();
      }
    };
    const BoxOperand &a = operands_[0], &b = operands_[1];
    if (!a.error.empty() && !b.range.empty()) add_crossed(a.error, b.range, false);
    if (!a.range.empty() && !b.error.empty()) add_crossed(a.range, b.error, false);
    if (!a.error.empty() && !b.error.empty()) add_crossed(a.error, b.error, true);
    return std::move(result_);
  }

  BoxNode operator()(const Composite auto&) {
    throw InvalidArgument("bounds: the composite op " + std::string(name_of(view_.node->op)) +
                          " has no Jacobian of its own; expand the graph to primitive ops first");
  }

private:
  std::vector<Radii> errors() const {
    std::vector<Radii> errors;
    for (const BoxOperand& operand : operands_) errors.push_back(operand.error);
    return errors;
  }
  bool is_cut(std::size_t slot) const { return !operands_[slot].is_followed && !operands_[slot].error.empty(); }
  bool any_is_cut() const {
    for (std::size_t slot = 0; slot < operands_.size(); ++slot)
      if (is_cut(slot)) return true;
    return false;
  }
  std::vector<Radii> errors_of_cut_operands() const {
    std::vector<Radii> errors(operands_.size());
    for (std::size_t slot = 0; slot < operands_.size(); ++slot)
      if (is_cut(slot)) errors[slot] = operands_[slot].error;
    return errors;
  }

  Magnitude error_at(std::size_t slot, std::size_t i) const { return radius_at(operands_[slot].error, i); }
  /// Returns a bound of the distance of both trajectories from the centre.
  Magnitude reach_at(std::size_t slot, std::size_t i) const {
    return theorems::box_reach(radius_at(operands_[slot].range, i), error_at(slot, i));
  }
  Interval range_of(std::size_t slot, std::size_t i) const {
    const double reach = reach_at(slot, i).value(), x = view_.input(slot).values[i];
    if (!std::isfinite(reach) || !std::isfinite(x)) return Interval::whole();
    return Interval(x) + Interval(-reach, reach);
  }

  void add(std::size_t slot, std::size_t output, std::size_t element, const Interval& slopes) {
    const Magnitude error = error_at(slot, element);
    double& slope = result_.slopes[slot][output];
    slope = slopes.is_finite() ? slopes.midpoint() : 0.0;
    if (error == Magnitude()) return;
    double &remainder = result_.remainder[output], &moved = result_.moved[output];
    remainder = (Magnitude(remainder) + theorems::left_over(slopes, slope, error)).value();
    if (is_cut(slot)) remainder = (Magnitude(remainder) + Magnitude(slope) * error).value();
    moved = (Magnitude(moved) + slopes.magnitude() * error).value();
  }

  BoxNode linear() {
    result_.moved = propagate(view_, errors(), {}, setting_);
    if (any_is_cut()) result_.remainder = propagate(view_, errors_of_cut_operands(), {}, setting_);
    result_.lipschitz = Magnitude(1.0);
    return std::move(result_);
  }

  /// The slope is 1 at the element that is extreme at the centre. If another element may be extreme within the box, the
  /// remainder is the error of the first one plus the largest error of the group.
  BoxNode extremum(double sign) {
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    result_.slopes[0].assign(view_.input(0).size(), 0.0);
    for (std::size_t g = 0; g < view_.output->size(); ++g) {
      const auto value = [&](std::size_t j) { return sign * view_.input(0).values[plan.groups[g] + plan.elements[j]]; };
      std::size_t chosen = 0;
      for (std::size_t j = 1; j < plan.elements.size(); ++j)
        if (value(j) > value(chosen)) chosen = j;
      const auto reach = [&](std::size_t j) { return reach_at(0, plan.groups[g] + plan.elements[j]); };
      Magnitude largest;
      bool is_decided = true;
      for (std::size_t j = 0; j < plan.elements.size(); ++j) {
        largest = std::max(largest, error_at(0, plan.groups[g] + plan.elements[j]));
        if (j != chosen)
          is_decided = is_decided && theorems::stays_larger(value(chosen), reach(chosen), value(j), reach(j));
      }
      const Magnitude own = error_at(0, plan.groups[g] + plan.elements[chosen]);
      result_.slopes[0][plan.groups[g] + plan.elements[chosen]] = 1.0;
      result_.moved[g] = largest.value();
      result_.remainder[g] = is_decided && !is_cut(0) ? 0.0 : (own + largest).value();
    }
    return std::move(result_);
  }

  /// The Jacobian at the centre maps delta to p_i (delta_i - p.delta). The remainder bounds the change of this
  /// expression for all p within their range.
  void softmax_row(const ReductionPlan& plan, std::int64_t outer, std::int64_t inner) {
    Magnitude mean, mean_of_ranges;  // (p + r).E, r.E
    const auto place = [&](std::int64_t j) { return plan.index(outer, j, inner); };
    for (std::int64_t j = 0; j < plan.length; ++j) {
      const Magnitude error = error_at(0, place(j)), range = radius_at(y_range_, place(j));
      mean += (Magnitude(view_.y(place(j))) + range) * error;
      mean_of_ranges += range * error;
    }
    for (std::int64_t j = 0; j < plan.length; ++j) {
      const std::size_t i = place(j);
      const Magnitude p(view_.y(i)), range = radius_at(y_range_, i);
      const Magnitude apart = error_at(0, i) + mean;
      result_.moved[i] = ((p + range) * apart).value();
      const Magnitude left_over = theorems::softmax_left_over(p, range, apart, mean_of_ranges);
      result_.remainder[i] = (is_cut(0) ? left_over + p * apart : left_over).value();
    }
  }

  const NodeView& view_;
  const std::vector<BoxOperand>& operands_;
  Radii y_range_;
  const Setting& setting_;
  BoxNode result_;
};

}  // namespace

BoxNode over_box(const NodeView& view, const std::vector<BoxOperand>& operands, Radii y_range, const Setting& setting) {
  return std::visit(OverBox(view, operands, y_range, setting), view.node->op);
}

}  // namespace driftbound::bounds
