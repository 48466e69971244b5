#include "bounds/nodes/normed_values.hpp"

#include <algorithm>

#include "bounds/theorems/trajectories.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {

NormedValues::NormedValues(const Graph& graph)
    : graph_(graph), producers_(graph.values.size(), nullptr), normed_(graph.values.size()) {
  for (const Node& node : graph.nodes) {
    producers_[node.output] = &node;
    normed_[node.output] = normed_by(node);
  }
}

void NormedValues::limit(const NodeView& view, std::vector<double>& bounds) const {
  const std::optional<Normed>& normed = normed_[view.node->output];
  if (!normed) return;
  const Tensor<double>&x = view.input(normed->slot), &root = view.input(1 - normed->slot);
  if (x.shape != view.output->shape || root.size() == 0) return;  // else elements may meet roots of other elements
  const double largest = sqrt_up(normed->largest_square.value_or(static_cast<double>(x.size() / root.size())));
  for (std::size_t i = 0; i < bounds.size(); ++i)
    bounds[i] = std::min(bounds[i], theorems::reach_within(view.y(i), -largest, largest));
}

std::optional<NormedValues::Normed> NormedValues::normed_by(const Node& node) const {
  Normed normed;
  if (std::holds_alternative<op::Div>(node.op) && is_root_of_squares(node.inputs[1], node.inputs[0], normed))
    return normed;
  if (!std::holds_alternative<op::Mul>(node.op)) return std::nullopt;
  for (normed.slot = 0; normed.slot < 2; ++normed.slot) {
    const ValueId x = node.inputs[normed.slot];
    const Node* inverse = producer(node.inputs[1 - normed.slot]);
    if (inverse == nullptr) continue;
    const auto* power = std::get_if<op::Pow>(&inverse->op);
    if (power != nullptr && power->exponent == -0.5 && is_mean_of_squares(inverse->inputs[0], x, normed)) return normed;
    const bool is_quotient = std::holds_alternative<op::Div>(inverse->op) && number(inverse->inputs[0]) == 1.0;
    const bool is_inverse = is_quotient || std::holds_alternative<op::Reciprocal>(inverse->op);
    if (is_inverse && is_root_of_squares(inverse->inputs.back(), x, normed)) return normed;
  }
  return std::nullopt;
}

bool NormedValues::is_root_of_squares(ValueId root, ValueId x, Normed& normed) const {
  const Node* node = producer(root);
  return node != nullptr && std::holds_alternative<op::Sqrt>(node->op) &&
         is_mean_of_squares(node->inputs[0], x, normed);
}

/// A weighted sum of all squares of x, with the axes kept, and an epsilon above 0.
bool NormedValues::is_mean_of_squares(ValueId mean, ValueId x, Normed& normed) const {
  const Node* node = producer(mean);
  if (node == nullptr || !std::holds_alternative<op::Add>(node->op)) return false;
  const std::size_t summand = number(node->inputs[0]) ? 1 : 0;
  const std::optional<double> epsilon = number(node->inputs[1 - summand]);
  if (!epsilon || !(*epsilon > 0.0)) return false;
  const Node* sum = producer(node->inputs[summand]);
  if (sum == nullptr) return false;
  if (const auto* reduced = std::get_if<op::ReduceMean>(&sum->op))
    return reduced->keep_axes && is_square(sum->inputs[0], x);
  normed.largest_square = 1.0;
  if (std::holds_alternative<op::Div>(sum->op)) {
    const std::optional<double> divisor = number(sum->inputs[1]);
    if (!divisor || !(*divisor > 0.0)) return false;
    normed.largest_square = divisor;
    sum = producer(sum->inputs[0]);
  } else if (std::holds_alternative<op::Mul>(sum->op)) {
    const std::size_t factor = number(sum->inputs[0]) ? 0 : 1;
    const std::optional<double> weight = number(sum->inputs[factor]);
    if (!weight || !(*weight > 0.0)) return false;
    normed.largest_square = div_up(1.0, *weight);
    sum = producer(sum->inputs[1 - factor]);
  }
  if (sum == nullptr) return false;
  if (const auto* squares = std::get_if<op::ReduceSumSquare>(&sum->op))
    return squares->keep_axes && sum->inputs[0] == x;
  const auto* reduced = std::get_if<op::ReduceSum>(&sum->op);
  return reduced != nullptr && reduced->keep_axes && is_square(sum->inputs[0], x);
}

bool NormedValues::is_square(ValueId square, ValueId x) const {
  const Node* node = producer(square);
  if (node == nullptr || node->inputs[0] != x) return false;
  const auto* power = std::get_if<op::Pow>(&node->op);
  const bool is_product = std::holds_alternative<op::Mul>(node->op) && node->inputs[1] == x;
  return is_product || (power != nullptr && power->exponent == 2.0);
}

std::optional<double> NormedValues::number(ValueId id) const {
  if (!graph_.is_constant(id) || graph_.value(id).constant.size() != 1) return std::nullopt;
  return graph_.value(id).constant.to_double().values[0];
}

}  // namespace driftbound::bounds
