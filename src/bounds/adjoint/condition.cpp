#include "bounds/adjoint/condition.hpp"

#include <cmath>
#include <limits>

#include "bounds/matrices/matrix.hpp"
#include "bounds/nodes/product_node.hpp"

namespace driftbound::bounds {
namespace {

std::vector<double> behind_product(const Product& product, const NodeView& view, const Setting& setting) {
  std::vector<double> sums =
      product_up(product.plan, magnitudes(view.input(0).values), magnitudes(view.input(1).values), setting.threads);
  for (double& sum : sums) sum *= std::abs(product.alpha);
  if (!product.has_addend) return sums;
  const BroadcastIndex index(view.input(2).shape, view.output->shape);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += std::abs(product.beta * view.input(2).values[index(i)]);
  return sums;
}

std::vector<double> behind_group_sums(const NodeView& view) {
  const GroupPlan plan = plan_groups(view.node->op, view.input(0).shape);
  std::vector<double> sums(view.output->size(), 0.0);
  for (std::size_t group = 0; group < sums.size(); ++group) {
    for (const std::size_t element : plan.elements)
      sums[group] += std::abs(view.input(0).values[plan.groups[group] + element]);
  }
  return sums;
}

/// Returns |c.b| for every row, b the shadow.
std::vector<double> target_of(const Program& program, const Shadow& shadow, const Direction& c) {
  const auto rows = static_cast<std::size_t>(program.rows());
  std::vector<double> target(rows, 0.0);
  for (const auto& [id, factors] : c) {
    const bool is_fixed = program.rows(id) == 1;
    const std::size_t size = is_fixed ? factors.size() : factors.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t first = is_fixed ? 0 : row * size;
      for (std::size_t i = first; i < first + size; ++i)
        if (factors[i] != 0.0) target[row] += factors[i] * shadow.value(id).values[i];
    }
  }
  for (double& value : target) value = std::abs(value);
  return target;
}

}  // namespace

std::vector<double> approx_magnitudes(const NodeView& view, const Setting& setting) {
  if (const std::optional<Product> product = product_of(view)) return behind_product(*product, view, setting);
  if (std::holds_alternative<op::ReduceSum>(view.node->op)) return behind_group_sums(view);
  return magnitudes(view.output->values);
}

std::vector<std::vector<double>> approx_magnitudes(const Program& program, const Shadow& shadow,
                                                   const Setting& setting) {
  std::vector<std::vector<double>> sums(program.size());
  for (const Node& node : program.nodes())
    if (program.varies(node.output)) sums[node.output] = approx_magnitudes(shadow.view_of(node), setting);
  return sums;
}

Condition approx_condition(const Program& program, const Shadow& shadow, const Direction& c,
                           const std::vector<std::vector<double>>& adjoints,
                           const std::vector<std::vector<double>>& magnitudes) {
  const std::vector<std::size_t>& layer_of = program.flat().of_node;
  const std::size_t layers = layer_of.empty() ? 0 : layer_of.back() + 1;
  const auto rows = static_cast<std::size_t>(program.rows());
  Condition condition{std::vector(layers, std::vector<double>(rows, 0.0)), target_of(program, shadow, c)};
  for (std::size_t node = 0; node < program.nodes().size(); ++node) {
    const ValueId id = program.nodes()[node].output;
    if (adjoints[id].empty() || magnitudes[id].empty()) continue;
    const std::size_t size = magnitudes[id].size() / rows;
    for (std::size_t i = 0; i < magnitudes[id].size(); ++i)
      condition.layers[layer_of[node]][i / size] += std::abs(adjoints[id][i]) * magnitudes[id][i];
  }
  for (std::vector<double>& layer : condition.layers) {
    for (std::size_t row = 0; row < rows; ++row)
      if (layer[row] != 0.0) layer[row] /= condition.target[row];
  }
  return condition;
}

}  // namespace driftbound::bounds
