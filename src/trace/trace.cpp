#include "driftbound/trace/trace.hpp"

#include "driftbound/num/errors.hpp"
#include "model/convert.hpp"

namespace driftbound {

std::string_view name_of(ObserverEffect effect) {
  switch (effect) {
    case ObserverEffect::not_checked:
      return "not checked";
    case ObserverEffect::none:
      return "none";
    case ObserverEffect::changed:
      break;
  }
  return "changed";
}

Inputs used_inputs(const Graph& graph, const Trace& trace) {
  Inputs used;
  for (const ValueId id : graph.inputs) {
    const Value& input = graph.value(id);
    used.tensors.emplace_back(input.name,
                              converted(trace.inputs.at(input.name), input.type, "input '" + input.name + "'"));
  }
  return used;
}

Trace slice(const Graph& graph, const BatchLayout& layout, const Trace& trace, std::int64_t first, std::int64_t count) {
  if (trace.layers.size() != graph.nodes.size()) {
    throw InvalidArgument("a trace of " + std::to_string(trace.layers.size()) + " layers for a graph of " +
                          std::to_string(graph.nodes.size()) + " nodes");
  }
  Trace part;
  part.model_sha256 = trace.model_sha256;
  part.arithmetic = trace.arithmetic;
  part.provenance = trace.provenance;
  part.inputs = slice(graph, layout, trace.inputs, first, count);
  part.samples = count;

  const std::vector<bool> depends = depends_on_input(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const LayerTrace& layer = trace.layers[i];
    if (!depends[graph.nodes[i].output]) {
      part.layers.push_back(layer);
      continue;
    }
    StoredTensor rows = rows_of(layer.output, first, count);
    if (!layout.batched) rows = reshaped(rows, Shape(rows.shape().begin() + 1, rows.shape().end()));
    part.layers.push_back({layer.name, std::move(rows)});
  }
  return part;
}

}  // namespace driftbound
