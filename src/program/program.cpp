#include "program/program.hpp"

#include <algorithm>
#include <utility>

#include "model/batch.hpp"
#include "program/identity.hpp"

namespace driftbound {
namespace {

std::vector<std::vector<ValueId>> last_reads_of(const std::vector<Node>& nodes, std::size_t values_in_program) {
  std::vector<std::vector<ValueId>> last_reads(nodes.size());
  std::vector<bool> is_read_later(values_in_program, false);
  for (std::size_t node = nodes.size(); node-- > 0;) {
    std::vector<ValueId> values = nodes[node].inputs;
    values.push_back(nodes[node].output);
    for (const ValueId id : values) {
      if (!is_read_later[id]) last_reads[node].push_back(id);
      is_read_later[id] = true;
    }
  }
  return last_reads;
}

}  // namespace

Program::Program(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows,
                 Rewrite rewrite)
    : Program(graph, input_shapes, rows, rewrite,
              rewrite ? rewrite(flatten(graph, input_shapes)) : flatten(graph, input_shapes)) {}

Program::Program(const Graph& graph, const std::vector<Shape>& input_shapes, std::optional<std::int64_t> rows,
                 Rewrite rewrite, FlatGraph flat)
    : graph_(graph),
      input_shapes_(input_shapes),
      counts_samples_(rows.has_value()),
      rewrite_(std::move(rewrite)),
      flat_(std::move(flat)),
      rows_(rows.value_or(1)),
      identity_(new_identity()) {
  varies_ = depends_on_input(flat_.graph);
  for (const Node& node : graph.nodes) node_outputs_.push_back(flat_.of_value[node.output]);
  is_layer_.resize(size(), false);
  for (const ValueId id : flat_.of_value) is_layer_[id] = true;
  fuse();
  last_reads_ = last_reads_of(nodes(), size());
  fused_.last_reads = last_reads_of(fused_.nodes, size());
  if (!counts_samples_) return;
  keeps_rows_apart_ =
      std::all_of(nodes().begin(), nodes().end(), [&](const Node& node) { return node_keeps_rows_apart(node); });
}

void Program::fuse() {
  for (std::size_t i = 0; i < nodes().size(); ++i) {
    const Node &node = nodes()[i], &of = graph_.nodes[flat_.of_node[i]];
    const ValueId output = flat_.of_value[of.output];
    const bool is_one = std::holds_alternative<op::Gelu>(of.op) && !rewrite_ && varies_[output];
    if (is_one && node.output != output) continue;
    fused_.nodes.push_back(is_one ? Node{of.name, of.op, {flat_.of_value[of.inputs[0]]}, output} : node);
    fused_.of_node.push_back(flat_.of_node[i]);
  }
}

std::size_t Program::row_size(ValueId id) const {
  const auto elements = static_cast<std::size_t>(element_count(shape(id)));
  return elements / static_cast<std::size_t>(std::max<std::int64_t>(rows(id), 1));
}

std::optional<Program> Program::with_rows(std::int64_t rows) const {
  if (!counts_samples_) return std::nullopt;
  std::vector<Shape> shapes = input_shapes_;
  for (Shape& shape : shapes) shape.front() = rows;
  Program program(graph_, shapes, rows, rewrite_);
  if (!program.keeps_rows_apart()) return std::nullopt;
  return program;
}

bool Program::node_keeps_rows_apart(const Node& node) const {
  if (!varies_[node.output]) return true;
  const Shape& result = shape(node.output);
  if (result.empty() || result.front() != rows_) return false;
  std::vector<BatchOperand> operands;
  for (const ValueId id : node.inputs) operands.push_back({shape(id), varies_[id]});
  return keeps_samples_apart(node.op, operands, result);
}

}  // namespace driftbound
