#include "bounds/adjoint/network.hpp"

#include <algorithm>

#include "model/batch.hpp"

namespace driftbound::bounds {

Network::Network(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows)
    : graph_(graph),
      input_shapes_(input_shapes),
      counts_samples_(rows.has_value()),
      flat_(flatten(graph, input_shapes)),
      rows_(rows.value_or(1)),
      varies_(depends_on_input(flat_.graph)) {
  for (const Node& node : graph.nodes) node_outputs_.push_back(flat_.of_value[node.output]);
  if (!counts_samples_) return;
  keeps_rows_apart_ =
      std::all_of(nodes().begin(), nodes().end(), [&](const Node& node) { return node_keeps_rows_apart(node); });
}

std::optional<Network> Network::with_rows(std::int64_t rows) const {
  if (!counts_samples_) return std::nullopt;
  std::vector<Shape> shapes = input_shapes_;
  for (Shape& shape : shapes) shape.front() = rows;
  Network network(graph_, shapes, rows);
  if (!network.keeps_rows_apart()) return std::nullopt;
  return network;
}

bool Network::node_keeps_rows_apart(const Node& node) const {
  if (!varies_[node.output]) return true;
  const Shape& result = shape(node.output);
  if (result.empty() || result.front() != rows_) return false;
  std::vector<BatchOperand> operands;
  for (const ValueId id : node.inputs) operands.push_back({shape(id), varies_[id]});
  return keeps_samples_apart(node.op, operands, result);
}

}  // namespace driftbound::bounds
