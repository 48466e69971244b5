#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <string>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/function_rules.hpp"
#include "bounds/nodes/linear.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/nodes/softmax_row.hpp"
#include "bounds/theorems/boxes.hpp"
#include "bounds/theorems/propagation.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "num/parallel.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t work_worth_a_thread = 1 << 12;

Linearised own_jacobian(const NodeView& view) {
  Linearised result;
  result.slopes.resize(view.inputs.size());
  return result;
}

/// Each overload linearises one op.
class Expansion {
public:
  Expansion(const NodeView& view, std::span<const Radii> radii, Radii y_error, const Setting& setting)
      : view_(view), radii_(radii), y_error_(y_error), setting_(setting) {}

  Linearised operator()(const OneOf<op::Add, op::Sub, op::ReduceSum> auto&) const { return own_jacobian(view_); }
  Linearised operator()(const Selection auto&) const { return own_jacobian(view_); }
  Linearised operator()(const op::Neg&) const { return isometry(); }
  Linearised operator()(const op::Cast&) const { return isometry(); }

  Linearised operator()(const ElementwiseUnary auto& f) const {
    const FunctionRules rules = function_rules(f);
    return elements(rules.expand, rules.parameter);
  }
  Linearised operator()(const op::Clip& clip) const {
    return elements([&](const Point& p) { return theorems::linear_clip(p, clip.least, clip.most); }, 0.0);
  }

  Linearised operator()(const op::Mul&) const { return binary(theorems::linear_product); }
  Linearised operator()(const op::Div&) const { return binary(theorems::linear_quotient); }
  Linearised operator()(const op::Max&) const { return binary(theorems::linear_max); }
  Linearised operator()(const op::Min&) const { return binary(theorems::linear_min); }
  Linearised operator()(const op::PRelu&) const { return binary(theorems::linear_prelu); }

  Linearised operator()(const op::Greater&) const { return compared(theorems::propagate_greater); }
  Linearised operator()(const op::GreaterOrEqual&) const { return compared(theorems::propagate_greater_or_equal); }
  Linearised operator()(const op::Equal&) const { return compared(theorems::propagate_equal); }

  /// J is that of the selected operand. If the condition is undecided, the other operand may be selected; the remainder
  /// is then the distance of the two operands plus both radii.
  Linearised operator()(const op::Choice&) const {
    const Tensor<double>& c = view_.input(0);
    const std::size_t n = view_.output->size();
    const BroadcastIndex in_c(c.shape, view_.output->shape);
    const std::array<BroadcastIndex, 2> index = {BroadcastIndex(view_.input(1).shape, view_.output->shape),
                                                 BroadcastIndex(view_.input(2).shape, view_.output->shape)};
    Linearised result;
    result.slopes.assign(3, std::vector<double>(n));
    for (std::size_t i = 0; i < n; ++i) {
      const double condition = c.values[in_c(i)];
      const std::size_t taken = condition > 0.5 ? 0 : 1, other = 1 - taken;
      const auto value = [&](std::size_t which) { return view_.input(1 + which).values[index[which](i)]; };
      const Magnitude moved = radius_at(radii_[1], index[0](i)) + radius_at(radii_[2], index[1](i));
      const bool decides = theorems::decides_choice(condition, radius_at(radii_[0], in_c(i)));
      result.slopes[1 + taken][i] = 1.0;
      result.remainder.push_back(
          theorems::propagate_choice(decides, value(taken), Magnitude(), value(other), moved).value());
    }
    return result;
  }

  Linearised operator()(const op::ReduceMax&) const { return groups(theorems::linear_reduce_max); }
  Linearised operator()(const op::ReduceMin&) const { return groups(theorems::linear_reduce_min); }

  Linearised operator()(const op::Softmax& softmax) const {
    Linearised result = own_jacobian(view_);
    result.remainder.resize(view_.output->size());
    const ReductionPlan plan = plan_reduction(softmax, view_.output->shape);
    in_ranges(at(plan.outer * plan.inner), at(plan.length), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) softmax_row(plan, row, result.remainder);
    });
    return result;
  }

  /// The remainder is |alpha| E_A E_B, as (A + dA)(B + dB) - A B - dA B - A dB = dA dB.
  Linearised operator()(const OneOf<op::Gemm, op::MatMul> auto&) const {
    Linearised result = own_jacobian(view_);
    if (radii_[0].empty() || radii_[1].empty()) return result;
    const Product product = product_of(view_).value();
    result.remainder = product_up(product.plan, radii_[0], radii_[1], setting_.threads);
    for (double& value : result.remainder) value = theorems::crossed(product.alpha, value).value();
    return result;
  }

  Linearised operator()(const Composite auto&) const {
    throw InvalidArgument("bounds: the composite op " + std::string(name_of(view_.node->op)) +
                          " has no Jacobian of its own; expand the graph to primitive ops first");
  }

private:
  /// Calls f(first, last) for ranges of `count` items, in parallel if `count` times the `work` per item is large
  /// enough.
  void in_ranges(std::size_t count, std::size_t work, const std::function<void(std::int64_t, std::int64_t)>& f) const {
    parallel_for(static_cast<std::int64_t>(count), count * work >= work_worth_a_thread ? setting_.threads : 1, f);
  }

  template <class Rule>
  Linearised elements(const Rule& rule, double alpha) const {
    const std::vector<double>& x = view_.input(0).values;
    Linearised result;
    result.slopes.emplace_back(x.size());
    result.remainder.resize(x.size());
    result.lipschitz = Magnitude();
    std::mutex merging;
    in_ranges(x.size(), 1, [&](std::int64_t first, std::int64_t last) {
      Magnitude steepest;
      for (std::size_t i = at(first); i < at(last); ++i) {
        const Linear linear = rule(Point{x[i], radius_at(radii_[0], i), view_.y(i), radius_at(y_error_, i), alpha});
        result.slopes[0][i] = linear.slope;
        result.remainder[i] = linear.remainder.value();
        steepest = std::max(steepest, linear.lipschitz);
      }
      const std::lock_guard lock(merging);
      result.lipschitz = std::max(result.lipschitz, steepest);
    });
    return result;
  }

  Linearised isometry() const {
    Linearised result = own_jacobian(view_);
    result.lipschitz = Magnitude(1.0);
    return result;
  }

  /// A comparison is piecewise constant: its slopes are 0, and the remainder is the jump if the comparison is
  /// undecided.
  Linearised compared(BinaryPropagation propagated) const {
    return binary([propagated](double a, Magnitude ea, double b, Magnitude eb) {
      return LinearPair{0.0, 0.0, propagated(a, ea, b, eb)};
    });
  }

  template <class Rule>
  Linearised binary(const Rule& rule) const {
    const Tensor<double>&a = view_.input(0), &b = view_.input(1);
    const std::size_t n = view_.output->size();
    const BroadcastIndex a_index(a.shape, view_.output->shape), b_index(b.shape, view_.output->shape);
    Linearised result;
    result.slopes.assign(2, std::vector<double>(n));
    result.remainder.resize(n);
    in_ranges(n, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::size_t i = at(first); i < at(last); ++i) {
        const std::size_t p = a_index(i), q = b_index(i);
        const LinearPair pair = rule(a.values[p], radius_at(radii_[0], p), b.values[q], radius_at(radii_[1], q));
        result.slopes[0][i] = pair.slope_a;
        result.slopes[1][i] = pair.slope_b;
        result.remainder[i] = pair.remainder.value();
      }
    });
    return result;
  }

  void softmax_row(const ReductionPlan& plan, std::int64_t row, std::vector<double>& result) const {
    const auto place = [&](std::size_t j) {
      return plan.index(row / plan.inner, static_cast<std::int64_t>(j), row % plan.inner);
    };
    SoftmaxRow of(at(plan.length));
    of.read(view_, radii_[0], y_error_, place);
    std::vector<double> remainder(of.seen.size());
    theorems::linear_softmax(of.p, of.error, of.e, remainder);
    Magnitude by_slopes;  // sum of the stored weights of hidden elements times their radii
    for (std::size_t j = 0; j < of.x.size(); ++j)
      if (of.hidden.is_hidden[j] != 0) by_slopes += Magnitude(view_.y(place(j))) * Magnitude(of.radius[j]);
    for (std::size_t k = 0; k < of.seen.size(); ++k)
      result[place(of.seen[k])] =
          theorems::remainder_beside_hidden(remainder[k], of.p[k], by_slopes, of.hidden.total).value();
    Magnitude by_all = by_slopes;
    for (std::size_t k = 0; k < of.seen.size(); ++k) by_all += Magnitude(of.p[k]) * Magnitude(of.e[k]);
    for (std::size_t j = 0; j < of.x.size(); ++j)
      if (of.hidden.is_hidden[j] != 0)
        result[place(j)] =
            theorems::remainder_of_hidden(of.hidden.largest[j], view_.y(place(j)), of.radius[j], by_all).value();
  }

  Linearised groups(GroupExpansion rule) const {
    Linearised result = own_jacobian(view_);
    const GroupPlan plan = plan_groups(view_.node->op, view_.input(0).shape);
    result.slopes[0].assign(view_.input(0).size(), 0.0);
    result.remainder.resize(view_.output->size());
    in_ranges(view_.output->size(), plan.elements.size(), [&](std::int64_t first, std::int64_t last) {
      std::vector<double> x(plan.elements.size()), e(plan.elements.size());
      for (std::size_t g = at(first); g < at(last); ++g) {
        for (std::size_t j = 0; j < x.size(); ++j) {
          const std::size_t place = plan.groups[g] + plan.elements[j];
          x[j] = view_.input(0).values[place];
          e[j] = radius_at(radii_[0], place).value();
        }
        const LinearExtremum extremum = rule(x, e);
        result.slopes[0][plan.groups[g] + plan.elements[extremum.chosen]] = 1.0;
        result.remainder[g] = extremum.remainder.value();
      }
    });
    return result;
  }

  const NodeView& view_;
  std::span<const Radii> radii_;
  Radii y_error_;
  const Setting& setting_;
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
