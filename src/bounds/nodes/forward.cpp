#include "bounds/nodes/forward.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bounds/arithmetic/numbers.hpp"
#include "bounds/nodes/body_error.hpp"
#include "bounds/nodes/function_rules.hpp"
#include "bounds/nodes/product_node.hpp"
#include "bounds/nodes/softmax_row.hpp"
#include "bounds/theorems/propagation.hpp"
#include "bounds/theorems/rows.hpp"
#include "driftbound/model/layout.hpp"

namespace driftbound::bounds {
namespace {

std::vector<double> propagate_unary(UnaryPropagation rule, const NodeView& view, Radii e, Radii y_error, double alpha) {
  const std::vector<double>& x = view.input(0).values;
  std::vector<double> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    result[i] = rule(Point{x[i], radius_at(e, i), view.y(i), radius_at(y_error, i), alpha}).value();
  return result;
}

/// The propagation of a sum and of a Relu by row kernels. Empty if radii are missing, shapes differ (sum), or a number
/// is not finite (Relu).
std::vector<double> sum_in_a_row(const NodeView& view, std::span<const Radii> radii) {
  const bool is_plain = view.input(0).shape == view.output->shape && view.input(1).shape == view.output->shape &&
                        !radii[0].empty() && !radii[1].empty();
  if (!is_plain) return {};
  std::vector<double> result(radii[0].begin(), radii[0].end());
  row_kernels().add(result.data(), radii[1].data(), result.size());
  return result;
}

std::vector<double> relu_in_a_row(const NodeView& view, Radii e) {
  const std::vector<double>& x = view.input(0).values;
  const auto is_finite = [&](const double* values) { return std::isfinite(row_kernels().largest(values, x.size())); };
  if (e.empty() || !is_finite(x.data()) || !is_finite(e.data())) return {};
  std::vector<double> slopes(x.size()), remainder(x.size()), moved(x.size());
  row_kernels().relu(x.data(), e.data(), slopes.data(), remainder.data(), moved.data(), x.size());
  return moved;
}

std::vector<double> propagate_binary(BinaryPropagation rule, const NodeView& view, std::span<const Radii> radii) {
  const Tensor<double>& a = view.input(0);
  const Tensor<double>& b = view.input(1);
  const BroadcastIndex a_index(a.shape, view.output->shape);
  const BroadcastIndex b_index(b.shape, view.output->shape);
  std::vector<double> result(view.output->size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::size_t p = a_index(i), q = b_index(i);
    result[i] = rule(a.values[p], radius_at(radii[0], p), b.values[q], radius_at(radii[1], q)).value();
  }
  return result;
}

std::vector<double> propagate_choice_node(const NodeView& view, std::span<const Radii> radii) {
  std::vector<double> result(view.output->size());
  const BroadcastIndex in_c(view.input(0).shape, view.output->shape), in_a(view.input(1).shape, view.output->shape);
  const BroadcastIndex in_b(view.input(2).shape, view.output->shape);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double c = view.input(0).values[in_c(i)];
    const std::array<std::size_t, 2> at = {in_a(i), in_b(i)};
    const std::size_t taken = c > 0.5 ? 0 : 1, other = 1 - taken;
    const auto value = [&](std::size_t which) { return view.input(1 + which).values[at[which]]; };
    const auto radius = [&](std::size_t which) { return radius_at(radii[1 + which], at[which]); };
    const bool decides = theorems::decides_choice(c, radius_at(radii[0], in_c(i)));
    result[i] = theorems::propagate_choice(decides, value(taken), radius(taken), value(other), radius(other)).value();
  }
  return result;
}

/// A softmax over the elements i of every row with is_kept(i); the others are 0. Infinite where a row keeps none.
std::vector<double> propagate_rows(const op::Softmax& softmax, const NodeView& view, Radii radii, Radii y_error,
                                   const auto& is_kept) {
  const ReductionPlan plan = plan_reduction(softmax, view.output->shape);
  std::vector<double> result(view.output->size()), moved;
  std::vector<std::size_t> kept;
  const auto place = [&](std::size_t j) { return kept[j]; };
  for (std::int64_t o = 0; o < plan.outer; ++o) {
    for (std::int64_t i = 0; i < plan.inner; ++i) {
      kept.clear();
      for (std::int64_t j = 0; j < plan.length; ++j)
        if (is_kept(plan.index(o, j, i))) kept.push_back(plan.index(o, j, i));
      for (std::int64_t j = 0; kept.empty() && j < plan.length; ++j) result[plan.index(o, j, i)] = infinity;
      if (kept.empty()) continue;
      SoftmaxRow row(kept.size());
      row.read(view, radii, y_error, place);
      moved.resize(row.p.size());
      theorems::propagate_softmax(row.p, row.error, row.e, moved);
      for (std::size_t k = 0; k < row.seen.size(); ++k)
        result[place(row.seen[k])] = (Magnitude(moved[k]) + row.hidden.total + row.hidden.total).value();
      for (std::size_t j = 0; j < kept.size(); ++j)
        if (row.hidden.is_hidden[j] != 0) result[place(j)] = row.hidden.largest[j].value();
    }
  }
  return result;
}

/// The same for a known mask.
std::vector<double> propagate_masked_rows(const op::MaskedSoftmax& softmax, const NodeView& view, Radii radii,
                                          Radii y_error) {
  const bool is_constant = !softmax.kept.empty();
  const BroadcastIndex in_mask(is_constant ? softmax.kept_shape : view.input(1).shape, view.output->shape);
  return propagate_rows(op::Softmax{softmax.axis, false}, view, radii, y_error, [&](std::size_t i) {
    return is_constant ? softmax.kept[in_mask(i)] : view.input(1).values[in_mask(i)] > 0.5;
  });
}

std::vector<double> propagate_selection(const NodeView& view, std::span<const Radii> radii) {
  if (keeps_order(view.node->op)) return propagate_unary(theorems::propagate_identity, view, radii[0], {}, 0.0);
  std::vector<Shape> shapes;
  for (const Tensor<double>* input : view.inputs) shapes.push_back(input->shape);
  std::vector<double> result;
  result.reserve(view.output->size());
  for (const ElementSource& source : plan_selection(view.node->op, shapes, view.output->shape)) {
    if (source.is_fill()) {
      result.push_back(0.0);
      continue;
    }
    const double x = view.input(source.input).values[source.index];
    result.push_back(
        theorems::propagate_identity(Point{x, radius_at(radii[source.input], source.index), x, Magnitude(), 0.0})
            .value());
  }
  return result;
}

/// Returns rule(x, e) for every group of a reduction, x its elements and e their radii.
std::vector<double> propagate_groups(GroupPropagation rule, const NodeView& view, Radii radii) {
  const GroupPlan plan = plan_groups(view.node->op, view.input(0).shape);
  std::vector<double> x(plan.elements.size()), e(plan.elements.size()), result;
  for (std::size_t g = 0; g < view.output->size(); ++g) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      const std::size_t at = plan.groups[g] + plan.elements[j];
      x[j] = view.input(0).values[at];
      e[j] = radius_at(radii, at).value();
    }
    result.push_back(rule(x, e).value());
  }
  return result;
}

/// Propagates radii through the body of a composite without roundings.
std::vector<double> propagate_body(const NodeView& view, std::span<const Radii> radii, const Setting& setting) {
  BodyRequest request;
  request.rounds = false;
  request.radii.assign(radii.begin(), radii.end());
  std::set<std::string> none;
  return body_error(view, request, setting, none);
}

}  // namespace

std::vector<double> propagate(const NodeView& view, std::span<const Radii> radii, Radii y_error,
                              const Setting& setting) {
  if (std::all_of(radii.begin(), radii.end(), [](Radii r) { return r.empty(); })) {
    return std::vector<double>(view.output->size(), 0.0);
  }
  if (const std::optional<Product> product = product_of(view)) {
    return propagate_product_node(*product, view, radii, setting);
  }
  if (is_selection(view.node->op)) return propagate_selection(view, radii);
  const auto unary = [&] {
    const FunctionRules rules = function_rules(view.node->op);
    return propagate_unary(rules.propagate, view, radii[0], y_error, rules.parameter);
  };
  const auto binary = [&](BinaryPropagation rule) { return propagate_binary(rule, view, radii); };
  const auto quick_sum = [&] {
    std::vector<double> quick = sum_in_a_row(view, radii);
    return quick.empty() ? binary(theorems::propagate_sum) : quick;
  };
  const auto quick_relu = [&] {
    std::vector<double> quick = relu_in_a_row(view, radii[0]);
    return quick.empty() ? unary() : quick;
  };
  return std::visit(
      Overloaded{
          [&](const op::Add&) { return quick_sum(); },
          [&](const op::Sub&) { return quick_sum(); },
          [&](const op::Mul&) { return binary(theorems::propagate_product); },
          [&](const op::Div&) { return binary(theorems::propagate_quotient); },
          [&](const op::Relu&) { return quick_relu(); },
          [&](const ElementwiseUnary auto&) { return unary(); },
          [&](const op::Softmax& softmax) {
            return propagate_rows(softmax, view, radii[0], y_error, [](std::size_t) { return true; });
          },
          [&](const op::MaskedSoftmax& softmax) {
            const bool is_mask_known = radii.size() < 2 || radii[1].empty();
            return is_mask_known ? propagate_masked_rows(softmax, view, radii[0], y_error)
                                 : propagate_body(view, radii, setting);
          },
          [&](const op::Min&) { return binary(theorems::propagate_min); },
          [&](const op::Max&) { return binary(theorems::propagate_max); },
          [&](const op::PRelu&) { return binary(theorems::propagate_prelu); },
          [&](const op::Greater&) { return binary(theorems::propagate_greater); },
          [&](const op::GreaterOrEqual&) { return binary(theorems::propagate_greater_or_equal); },
          [&](const op::Equal&) { return binary(theorems::propagate_equal); },
          [&](const op::Choice&) { return propagate_choice_node(view, radii); },
          [&](const op::ReduceSum&) { return propagate_groups(theorems::propagate_reduce_sum, view, radii[0]); },
          [&](const op::ReduceMax&) { return propagate_groups(theorems::propagate_reduce_max, view, radii[0]); },
          [&](const op::ReduceMin&) { return propagate_groups(theorems::propagate_reduce_min, view, radii[0]); },
          [&](const Composite auto&) { return propagate_body(view, radii, setting); },
          // handled above
          [&](const OneOf<op::Gemm, op::MatMul> auto&) { return std::vector<double>(); },
          [&](const Selection auto&) { return std::vector<double>(); },
      },
      view.node->op);
}

}  // namespace driftbound::bounds
