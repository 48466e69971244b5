#include "bounds/nodes/squares_in_run.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/theorems/propagation.hpp"
#include "bounds/theorems/roundings.hpp"
#include "bounds/theorems/sums.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

/// The numbers of one group of a value in a run.
class Spread {
public:
  Spread(const RunValue& x, const GroupPlan& plan, std::size_t group) {
    for (const std::size_t element : plan.elements) {
      const std::size_t i = plan.groups[group] + element;
      const Magnitude size = Magnitude(x.centre->values[i]), radius = radius_at(x.radii, i);
      numbers_.push_back(x.centre->values[i]);
      total_ += size;
      squares_ += (size + radius) * (size + radius);
      moved_ += radius * radius;
      least_ = std::min(least_, sub_down(numbers_.back(), radius.value()));
      most_ = std::max(most_, add_up(numbers_.back(), radius.value()));
    }
  }

  /// Lower bound of the 2-norm of the run's numbers less their mean: that of the centres, less the 2-norm of the radii.
  double least_norm() const {
    const auto n = static_cast<double>(numbers_.size());
    double sum = 0.0, squares = 0.0;
    for (const double x : numbers_) sum += x;
    const double mean = sum / n;
    for (const double x : numbers_) {
      const double distance = std::max(std::max(0.0, sub_down(x, mean)), sub_down(mean, x));
      squares = add_down(squares, mul_down(distance, distance));
    }
    // The sum and the quotient are off by at most n + 1 roundings of the sum of all magnitudes.
    const Magnitude off = divide_up(Magnitude((n + 2.0) * 0x1p-53) * total_, n) + Magnitude(0x1p-1073);
    const double about_mean = sub_down(squares, (Magnitude(n) * off * off).value());
    const double least = sub_down(sqrt_down(std::max(0.0, about_mean)), sqrt_up(moved_).value());
    return least > 0.0 ? least : 0.0;
  }
  /// Upper bound of the sum of squares.
  Magnitude squares() const { return squares_; }
  /// Upper bound of the distance of two of the numbers.
  Magnitude range() const { return Magnitude(sub_up(most_, least_)); }

private:
  std::vector<double> numbers_;
  double least_ = infinity, most_ = -infinity;
  Magnitude total_, squares_, moved_;
};

/// Whether a node sums a moment that other programs may merge from those of parts.
bool may_merge(const Node& node, bool sums_are_exact, const Setting& setting) {
  const auto* sum = std::get_if<op::ReduceSum>(&node.op);
  return sum != nullptr && sum->is_of_moment && !setting.is_own_run && !sums_are_exact;
}

}  // namespace

double RunValue::least_at(std::size_t i) const {
  const double by_radius = sub_down(centre->values[i], radius_at(radii, i).value());
  return least.empty() ? by_radius : std::max(by_radius, least[i]);
}

SquaresInRun::SquaresInRun(const Graph& graph, Values values)
    : values_(std::move(values)), producers_(graph.values.size(), nullptr) {
  for (const Node& node : graph.nodes) producers_[node.output] = &node;
}

bool SquaresInRun::is_of_squares(const Node& node) const {
  return std::holds_alternative<op::ReduceSum>(node.op) && square_below(node) != nullptr;
}

std::vector<double> SquaresInRun::least(const Node& node, const Shape& shape, bool sums_are_exact,
                                        const Setting& setting) const {
  const Machine& machine = setting.machine;
  if (!machine.to_nearest() || machine.flushes) return {};
  std::vector<double> exact(static_cast<std::size_t>(element_count(shape)));
  if (std::holds_alternative<op::ReduceSum>(node.op)) {
    exact = least_sums(node, shape, sums_are_exact, setting);
  } else if (std::holds_alternative<op::Mul>(node.op) && node.inputs[0] == node.inputs[1]) {
    const RunValue x = values_(node.inputs[0]);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double size = std::max(0.0, sub_down(std::abs(x.centre->values[i]), radius_at(x.radii, i).value()));
      exact[i] = mul_down(size, size);
    }
  } else if (std::holds_alternative<op::Sqrt>(node.op)) {
    const RunValue x = values_(node.inputs[0]);
    if (x.least.empty()) return {};
    for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = sqrt_down(std::max(0.0, x.least_at(i)));
  } else if (std::holds_alternative<op::Add>(node.op) || std::holds_alternative<op::Div>(node.op)) {
    const RunValue a = values_(node.inputs[0]), b = values_(node.inputs[1]);
    if ((a.least.empty() && b.least.empty()) || (a.centre->size() != exact.size() && a.centre->size() != 1)) return {};
    if (b.centre->size() != exact.size() && b.centre->size() != 1) return {};
    const bool is_sum = std::holds_alternative<op::Add>(node.op);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const std::size_t in_a = a.centre->size() == 1 ? 0 : i, in_b = b.centre->size() == 1 ? 0 : i;
      if (is_sum) {
        exact[i] = add_down(a.least_at(in_a), b.least_at(in_b));
      } else {
        const Magnitude most = Magnitude(b.centre->values[in_b]) + radius_at(b.radii, in_b);
        if (!(b.least_at(in_b) > 0.0) || !most.is_finite()) return {};
        exact[i] = div_down(std::max(0.0, a.least_at(in_a)), most.value());
      }
    }
  } else {
    return {};
  }
  for (double& least : exact) {
    if (!(least > 0.0)) least = 0.0;
    least = std::max(0.0, sub_down(least, theorems::unrecorded_rounding(Magnitude(least), machine).value()));
  }
  return exact;
}

std::vector<double> SquaresInRun::least_sums(const Node& node, const Shape& shape, bool sums_are_exact,
                                             const Setting& setting) const {
  const RunValue terms = values_(node.inputs[0]);
  const Node* centred = centred_below(node, shape);
  const bool is_merged = may_merge(node, sums_are_exact, setting);
  if (terms.least.empty() || (is_merged && centred == nullptr)) return {};
  const GroupPlan plan = plan_groups(node.op, terms.centre->shape);
  const auto count = static_cast<std::int64_t>(plan.elements.size());
  std::vector<double> sums;
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    double total = 0.0;
    for (const std::size_t element : plan.elements)
      total = add_down(total, std::max(0.0, terms.least_at(plan.groups[g] + element)));
    double least = sums_are_exact ? total : theorems::least_sum(total, count, setting.machine);
    if (centred != nullptr) {
      const Spread x(values_(centred->inputs[0]), plan, g);
      const double spread = x.least_norm();
      least = std::max(least, theorems::least_squares(spread, count, sums_are_exact, setting.machine));
      if (is_merged)
        least = std::min(least, theorems::least_merged_squares(spread, x.squares(), count, setting.machine));
    }
    sums.push_back(least);
  }
  return sums;
}

void SquaresInRun::add_merges(const NodeView& view, bool sums_are_exact, const Setting& setting,
                              std::vector<double>& radii) const {
  const Node& node = *view.node;
  if (!may_merge(node, sums_are_exact, setting)) return;
  const Node* centred = centred_below(node, view.output->shape);
  if (centred == nullptr) return;
  const RunValue x = values_(centred->inputs[0]), mean = values_(centred->inputs[1]),
                 distance = values_(centred->output);
  const GroupPlan plan = plan_groups(node.op, x.centre->shape);
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    double farthest = 0.0;
    for (const std::size_t element : plan.elements)
      farthest = std::max(farthest, std::abs(distance.centre->values[plan.groups[g] + element]));
    if (radius_at(mean.radii, g).value() < farthest) continue;
    const Magnitude most = theorems::most_merged_squares(
        Spread(x, plan, g).range(), static_cast<std::int64_t>(plan.elements.size()), setting.machine);
    radii[g] = std::max({radii[g], most.value(), view.y(g)});
  }
}

/// The product of a value with itself that a node sums, or null.
const Node* SquaresInRun::square_below(const Node& sum) const {
  const Node* square = producers_[sum.inputs[0]];
  const bool is_square =
      square != nullptr && std::holds_alternative<op::Mul>(square->op) && square->inputs[0] == square->inputs[1];
  return is_square ? square : nullptr;
}

/// The difference of a value and one number for each of the groups whose squares are summed, or null.
const Node* SquaresInRun::centred_below(const Node& sum, const Shape& sums) const {
  const Node* square = square_below(sum);
  const Node* centred = square == nullptr ? nullptr : producers_[square->inputs[0]];
  if (centred == nullptr || !std::holds_alternative<op::Sub>(centred->op)) return nullptr;
  const bool has_one_number = values_(centred->inputs[1]).centre->shape == sums;
  const bool has_all = values_(centred->inputs[0]).centre->shape == values_(centred->output).centre->shape;
  return has_one_number && has_all ? centred : nullptr;
}

void SquaresInRun::limit(const NodeView& view, std::vector<double>& moved) const {
  const Node& node = *view.node;
  const std::size_t divisor = node.inputs.size() - 1;
  const bool is_root = std::holds_alternative<op::Sqrt>(node.op),
             is_quotient = std::holds_alternative<op::Div>(node.op);
  if (!is_root && !is_quotient && !std::holds_alternative<op::Reciprocal>(node.op)) return;
  const RunValue below = values_(node.inputs[divisor]);
  if (below.least.empty()) return;
  const BroadcastIndex in_below(below.centre->shape, view.output->shape);
  const BroadcastIndex in_above(view.input(0).shape, view.output->shape);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const std::size_t at = in_below(i);
    const double x = below.centre->values[at], least = below.least_at(at);
    const Magnitude e = radius_at(below.radii, at);
    Magnitude bound;
    if (is_root) {
      bound = theorems::propagate_sqrt_above(x, e, std::max(0.0, least));
    } else if (is_quotient) {
      const RunValue above = values_(node.inputs[0]);
      bound = theorems::propagate_quotient_above(above.centre->values[in_above(i)], radius_at(above.radii, in_above(i)),
                                                 x, e, least);
    } else {
      bound = theorems::propagate_quotient_above(1.0, Magnitude(), x, e, least);
    }
    moved[i] = std::min(moved[i], bound.value());
  }
}

}  // namespace driftbound::bounds
