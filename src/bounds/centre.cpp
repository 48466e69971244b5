#include "bounds/centre.hpp"

#include <algorithm>
#include <limits>

#include "bounds/accuracy.hpp"
#include "bounds/forward.hpp"
#include "bounds/product_node.hpp"
#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

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

}  // namespace

Centre centre_of_node(const NodeView& view, const Shape& shape, const Setting& setting) {
  if (product_of(view)) return product_centre(view, shape, setting);
  std::vector<Tensor<Interval>> operands;
  for (const Tensor<double>* input : view.inputs) operands.push_back(as_intervals(*input));
  std::vector<const Tensor<Interval>*> pointers;
  for (const Tensor<Interval>& operand : operands) pointers.push_back(&operand);
  return centre_of(std::visit(scalar::OpEvaluator<Interval>(*view.node, pointers, shape), view.node->op));
}

}  // namespace driftbound::bounds
