#include "analysis/inspect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

std::string declared_shape(const Value& value) {
  if (!value.has_declared_shape) return "[?]";
  std::string text;
  for (const DeclaredDimension& dimension : value.declared) {
    if (!text.empty()) text += ", ";
    if (dimension.extent >= 0)
      text += std::to_string(dimension.extent);
    else
      text += dimension.symbol.empty() ? "?" : dimension.symbol;
  }
  return "[" + text + "]";
}

std::int64_t parameters_of(const Graph& graph, const Node& node) {
  std::int64_t count = 0;
  for (ValueId input : node.inputs)
    if (graph.is_constant(input) && is_float(graph.value(input).type))
      count += element_count(graph.value(input).constant.shape());
  return count;
}

/// Shapes with one sample, or none where the declared shapes do not determine them.
std::vector<Shape> single_sample_shapes(const Graph& graph, std::string& note) {
  try {
    const BatchLayout layout = batch_layout(graph);
    note = layout.batched ? "any number of samples at a time" : "one sample at a time";
    return infer_shapes(graph, layout.sample_shapes);
  } catch (const Error& error) {
    note = error.what();
    return {};
  }
}

std::string unsupported_block(const ModelDescription& description) {
  std::string text =
      fmt::format("\nNot supported ({} of {} nodes):\n", description.unsupported.size(), description.operators.size());
  for (const UnsupportedNode& node : description.unsupported)
    text += fmt::format("  {} ({}): {}\n", node.node, node.op, node.reason);
  return text;
}

std::string layer_lines(const Graph& graph, const std::vector<Shape>& shapes) {
  std::size_t names = 32, ops = 10, extents = 20;
  const auto shape_of = [&](const Node& node) {
    return shapes.empty() ? "?" : driftbound::to_string(shapes[node.output]);
  };
  for (const Node& node : graph.nodes) {
    names = std::max(names, node.name.size());
    ops = std::max(ops, std::string_view(name_of(node.op)).size());
    extents = std::max(extents, shape_of(node).size());
  }
  const auto line = [&](const auto& number, const std::string& name, std::string_view op, const std::string& shape,
                        const auto& parameters) {
    return fmt::format("{:>4} {:<{}} {:<{}} {:>{}} {:>12}\n", number, name, names, op, ops, shape, extents, parameters);
  };
  std::string text = "\n" + line("#", "layer", "op", "output (one sample)", "parameters");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    text += line(i, node.name, name_of(node.op), shape_of(node), parameters_of(graph, node));
  }
  return text;
}

}  // namespace

std::string describe(const ModelDescription& description, const std::string& file) {
  const Graph& graph = description.graph;
  std::string text =
      fmt::format("{}\n  format      {}{}\n", file, graph.format,
                  description.producer.empty() ? "" : fmt::format(", written by {}", description.producer));
  for (const DataFile& data : description.data_files)
    text += fmt::format("  data file   {} ({} bytes)\n", data.location, data.bytes);
  for (ValueId id : graph.inputs)
    text += fmt::format("  input       {} {} {}\n", graph.value(id).name, name_of(graph.value(id).type),
                        declared_shape(graph.value(id)));
  for (ValueId id : graph.outputs) text += fmt::format("  output      {}\n", graph.value(id).name);
  if (!description.unsupported.empty()) return text + unsupported_block(description);
  std::string note;
  const std::vector<Shape> shapes = single_sample_shapes(graph, note);
  text += fmt::format("  nodes       {}\n  parameters  {}\n  batch       {}\n", graph.nodes.size(),
                      graph.parameter_count(), note);
  return text + layer_lines(graph, shapes);
}

}  // namespace driftbound::analysis
