#include "bounds/chance/node_chance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bounds/sums/number_terms.hpp"
#include "bounds/theorems/sums.hpp"

namespace driftbound::bounds {
namespace {

UnrecordedSum sum_of_group(const RoundingNode& node, const GroupPlan& plan, std::size_t group, const Setting& setting) {
  NumberTerms numbers;
  for (const std::size_t element : plan.elements) {
    const std::size_t i = plan.groups[group] + element;
    numbers.add(node.view.input(0).values[i], radius_at(node.operand_radii[0], i));
  }
  UnrecordedSum sum;
  sum.terms = numbers.sizes();
  const Magnitude result = Magnitude(node.view.y(group)) + Magnitude(node.moved[group]);
  sum.terms.sum = std::min(result, sum.terms.total);
  const Magnitude classical = theorems::any_order_factor(sum.terms.leaves - 2, setting.machine) * sum.terms.total;
  sum.before = std::min(classical, theorems::partial_sums_error(sum.terms, setting.machine));
  return sum;
}

}  // namespace

bool is_plain_sum(const NodeView& view) {
  if (std::holds_alternative<op::ReduceSum>(view.node->op)) return true;
  const std::optional<Product> product = product_of(view);
  return product && std::abs(product->alpha) == 1.0;
}

std::vector<UnrecordedSum> sums_of(const RoundingNode& node, const Setting& setting) {
  if (!std::holds_alternative<op::ReduceSum>(node.view.node->op))
    return unrecorded_sums({node.view, node.operand_radii, node.moved, true}, setting);
  const GroupPlan plan = plan_groups(node.view.node->op, node.view.input(0).shape);
  std::vector<UnrecordedSum> sums;
  for (std::size_t group = 0; group < node.view.output->size(); ++group)
    sums.push_back(sum_of_group(node, plan, group, setting));
  return sums;
}

std::vector<TermPattern> patterns_of(const RoundingNode& node, const RightColumns* columns) {
  std::vector<TermPattern> patterns;
  if (const std::optional<Product> product = product_of(node.view)) {
    patterns = patterns_of(product->plan, node.view.input(0).values, node.view.input(1).values, columns);
  } else {
    const GroupPlan plan = plan_groups(node.view.node->op, node.view.input(0).shape);
    for (std::size_t group = 0; group < node.sums.size(); ++group) {
      std::vector<double> terms;
      for (const std::size_t element : plan.elements)
        terms.push_back(std::abs(node.view.input(0).values[plan.groups[group] + element]));
      patterns.push_back(pattern_of(terms));
    }
  }
  const auto has_none = [](TermPattern pattern) { return pattern == TermPattern::none; };
  return std::all_of(patterns.begin(), patterns.end(), has_none) ? std::vector<TermPattern>() : patterns;
}

std::vector<double> rest_of_sums(const RoundingNode& node, const Setting& setting) {
  const Machine products = product_machine(setting.machine);
  const std::optional<Product> product = product_of(node.view);
  const Magnitude omega(products.flushes && product ? products.accumulator->smallest_normal : 0.0);
  const Magnitude flushed = omega + omega * Magnitude(product && product->has_addend ? product->beta : 0.0);
  std::vector<double> rest;
  for (std::size_t i = 0; i < node.sums.size(); ++i) {
    const UnrecordedSum& sum = node.sums[i];
    const bool is_bounded = node.added.empty() || std::isfinite(node.added[i]);
    const Magnitude at_full_size = radius_at(node.own, i) + sum.terms.underflow + sum.reading + flushed;
    rest.push_back(is_bounded ? at_full_size.value() : std::numeric_limits<double>::infinity());
  }
  return rest;
}

}  // namespace driftbound::bounds
