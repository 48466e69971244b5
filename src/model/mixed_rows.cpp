// Which node mixes the rows of an open axis 0, for the numbers of rows at which the graph runs.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/model/layout.hpp"
#include "driftbound/num/errors.hpp"
#include "model/batch.hpp"
#include "model/sample_axis.hpp"
#include "model/shapes.hpp"

namespace driftbound {
namespace {

/// Two numbers of rows that stand for "any": models rarely have such extents, which are primes.
constexpr std::array<std::int64_t, 2> any_rows = {97, 101};

/// The shapes of a run of so many rows, up to the first node whose operands do not fit.
struct Run {
  std::int64_t rows = 1;
  std::vector<Shape> values;
  std::size_t fitting_nodes = 0;
};

std::vector<Shape> operand_shapes(const Node& node, const std::vector<Shape>& values) {
  std::vector<Shape> shapes;
  for (const ValueId id : node.inputs) shapes.push_back(values[id]);
  return shapes;
}

Run run_of(const Graph& graph, std::int64_t rows) {
  Run run{rows, std::vector<Shape>(graph.values.size()), 0};
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    if (graph.is_constant(id)) run.values[id] = graph.value(id).constant.shape();
  }
  const std::vector<Shape> inputs = declared_shapes(graph, rows);
  for (std::size_t i = 0; i < inputs.size(); ++i) run.values[graph.inputs[i]] = inputs[i];
  try {
    for (const Node& node : graph.nodes) {
      run.values[node.output] = output_shape(node.op, operand_shapes(node, run.values));
      ++run.fitting_nodes;
    }
  } catch (const ShapeMismatch&) {
  }
  return run;
}

bool is_whole(const Run& run, const Graph& graph) {
  return run.fitting_nodes == graph.nodes.size();
}

/// The axis of the node's result that counts rows, where it is seen; `values` are the operands of a run of several.
std::optional<std::size_t> followed_axis(const Node& node, const std::vector<SampleOperand>& values,
                                         const std::vector<bool>& depends) {
  std::vector<SampleOperand> operands;
  for (const ValueId id : node.inputs) {
    if (depends[id] && !values[id].axis) return std::nullopt;
    operands.push_back(values[id]);
  }
  return sample_axis_of(node.op, operands, values[node.output].shape);
}

/// The first node of a run whose rows do not stay apart along one axis, or whose row alone has another shape.
std::optional<std::size_t> node_that_mixes(const Graph& graph, const Run& several) {
  const Run one = run_of(graph, 1);
  const std::vector<bool> depends = depends_on_input(graph);
  std::vector<SampleOperand> values(graph.values.size());
  for (ValueId id = 0; id < values.size(); ++id) values[id].shape = several.values[id];
  for (const ValueId id : graph.inputs) {
    if (may_count_samples(graph.value(id))) values[id].axis = 0;
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!depends[node.output]) continue;
    std::optional<std::size_t>& axis = values[node.output].axis;
    axis = followed_axis(node, values, depends);
    if (!axis || i >= one.fitting_nodes) return i;
    Shape row = several.values[node.output];
    row[*axis] = 1;
    if (row != one.values[node.output]) return i;
  }
  return std::nullopt;
}

/// Extents that an op has beside those of its operands.
Shape own_extents(const Op& op) {
  if (const auto* expand = std::get_if<op::Expand>(&op)) return expand->target;
  if (const auto* where = std::get_if<op::Where>(&op)) return where->condition_shape;
  return {};
}

/// How an extent follows the number of rows: factor * rows + offset.
struct RowExtent {
  std::int64_t factor = 0, offset = 0;
};

/// The extent of which two runs have one value each.
std::optional<RowExtent> extent_through(const Run& first, std::int64_t in_first, const Run& second,
                                        std::int64_t in_second) {
  const std::int64_t rise = in_second - in_first, rows = second.rows - first.rows;
  if (rise % rows != 0) return std::nullopt;
  const std::int64_t factor = rise / rows;
  return RowExtent{factor, in_first - factor * first.rows};
}

/// Numbers of rows above 1 at which an extent of the node's operands that follows them is one that does not. A node
/// that takes one row, but not any number, broadcasts: no other number fits it.
std::set<std::int64_t> rows_that_meet_extents(const Node& node, const Run& first, const Run& second) {
  std::vector<RowExtent> following;
  std::set<std::int64_t> fixed;
  for (const std::int64_t extent : own_extents(node.op)) fixed.insert(extent);
  for (const ValueId id : node.inputs) {
    const Shape &a = first.values[id], &b = second.values[id];
    for (std::size_t axis = 0; axis < a.size() && a.size() == b.size(); ++axis) {
      const std::optional<RowExtent> extent = extent_through(first, a[axis], second, b[axis]);
      if (!extent) continue;
      if (extent->factor == 0) {
        fixed.insert(extent->offset);
      } else {
        following.push_back(*extent);
      }
    }
  }
  std::set<std::int64_t> rows;
  for (const RowExtent& extent : following) {
    for (const std::int64_t met : fixed) {
      const std::int64_t rise = met - extent.offset;
      if (rise % extent.factor == 0 && rise / extent.factor > 1) rows.insert(rise / extent.factor);
    }
  }
  return rows;
}

/// Numbers of rows above 1 at which the graph may run, where it does not run at any.
std::set<std::int64_t> rows_that_may_run(const Graph& graph, const Run& first) {
  const Run second = run_of(graph, any_rows[1]);
  const std::size_t at = std::min(first.fitting_nodes, second.fitting_nodes);
  if (at == graph.nodes.size()) return {};
  return rows_that_meet_extents(graph.nodes[at], first, second);
}

bool is_open(const Value& input) {
  return !input.declared.empty() && input.declared.front().extent < 0;
}

}  // namespace

std::optional<std::size_t> node_that_mixes_samples(const Graph& graph, std::int64_t samples) {
  const bool has_open_rows =
      std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](ValueId id) { return is_open(graph.value(id)); });
  if (!has_open_rows || batch_layout(graph).batched) return std::nullopt;
  const Run any = run_of(graph, any_rows[0]);
  if (is_whole(any, graph)) return node_that_mixes(graph, any);
  if (samples < 2) return std::nullopt;
  std::set<std::int64_t> numbers = rows_that_may_run(graph, any);
  numbers.insert(samples);
  for (const std::int64_t rows : numbers) {
    const Run run = run_of(graph, rows);
    if (!is_whole(run, graph)) continue;
    if (const std::optional<std::size_t> node = node_that_mixes(graph, run)) return node;
  }
  return std::nullopt;
}

void require_samples_apart(const Graph& graph, std::int64_t samples) {
  const std::optional<std::size_t> mixing = node_that_mixes_samples(graph, samples);
  if (!mixing) return;
  const Node& node = graph.nodes[*mixing];
  throw Unsupported(
      fmt::format("{}axis 0 of the input is left open, but node '{}' ({}) mixes its rows, so that they are no "
                  "samples; export the model with a fixed axis 0",
                  graph.source.empty() ? "" : graph.source + ": ", node.name, name_of(node.op)));
}

}  // namespace driftbound
