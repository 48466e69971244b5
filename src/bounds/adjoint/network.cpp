#include "bounds/adjoint/network.hpp"

#include <algorithm>
#include <utility>

#include "model/batch.hpp"

namespace driftbound::bounds {

Network::Network(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows)
    : Network(graph, input_shapes, rows, std::nullopt, {}) {}

Network::Network(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows,
                 const std::optional<Machine>& machine, const Readings& readings)
    : graph_(graph),
      input_shapes_(input_shapes),
      counts_samples_(rows.has_value()),
      machine_(machine),
      readings_(readings),
      flat_(flatten(graph, input_shapes)),
      rows_(rows.value_or(1)) {
  if (machine_) {
    NarrowGraph narrow = with_narrow_steps(flat_, *machine_, readings_);
    flat_ = std::move(narrow.flat);
    steps_ = std::move(narrow.steps);
  }
  varies_ = depends_on_input(flat_.graph);
  for (const Node& node : graph.nodes) node_outputs_.push_back(flat_.of_value[node.output]);
  join();
  if (!counts_samples_) return;
  keeps_rows_apart_ =
      std::all_of(nodes().begin(), nodes().end(), [&](const Node& node) { return node_keeps_rows_apart(node); });
}

void Network::join() {
  for (std::size_t i = 0; i < nodes().size(); ++i) {
    const Node &node = nodes()[i], &of = graph_.nodes[flat_.of_node[i]];
    const ValueId output = flat_.of_value[of.output];
    const bool is_one = std::holds_alternative<op::Gelu>(of.op) && !machine_ && varies_[output];
    if (is_one && node.output != output) continue;
    joined_.nodes.push_back(is_one ? Node{of.name, of.op, {flat_.of_value[of.inputs[0]]}, output} : node);
    joined_.of_node.push_back(flat_.of_node[i]);
  }
}

std::optional<Network> Network::with_rows(std::int64_t rows) const {
  if (!counts_samples_) return std::nullopt;
  std::vector<Shape> shapes = input_shapes_;
  for (Shape& shape : shapes) shape.front() = rows;
  Network network(graph_, shapes, rows, machine_, readings_);
  if (!network.keeps_rows_apart()) return std::nullopt;
  return network;
}

std::optional<Network> Network::narrowed(const Machine& machine, const Readings& readings) const {
  Network network(graph_, input_shapes_, counts_samples_ ? std::optional(rows_) : std::nullopt, machine, readings);
  for (std::size_t node = 0; node < network.nodes().size(); ++node) {
    const bool is_narrow = network.steps_.rounding[node] || !is_rounded(network.steps_.readings[node].operands);
    if (is_narrow && network.varies(network.nodes()[node].output)) return network;
  }
  return std::nullopt;
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
