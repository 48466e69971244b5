#include "analysis/promotion.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "driftbound/evaluate/evaluator.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/format.hpp"

namespace driftbound::analysis {
namespace {

/// The shape of an input that takes a recorded layer: open along the samples where the model has an axis of them.
std::vector<DeclaredDimension> declared_as(const StoredTensor& recorded, bool is_batched) {
  std::vector<DeclaredDimension> declared;
  const Shape& shape = recorded.shape();
  if (is_batched) declared.push_back({-1, "samples"});
  for (std::size_t axis = 1; axis < shape.size(); ++axis) declared.push_back({shape[axis], ""});
  return declared;
}

ValueId add_recorded(Graph& graph, std::string name, const StoredTensor& recorded, bool is_batched) {
  const ValueId id = graph.add_input(std::move(name), recorded.type(), declared_as(recorded, is_batched));
  graph.values[id].has_declared_shape = true;
  return id;
}

/// The layer alone in float64, rounded to the format in which the run stores its result.
StoredTensor in_float64(const Graph& graph, const Trace& base, std::size_t node) {
  const bool is_batched = batch_layout(graph).batched;
  const std::vector<bool> varies = depends_on_input(graph);
  const Node& layer = graph.nodes[node];
  Graph alone;
  Inputs inputs;
  std::vector<ValueId> operands;
  for (const ValueId id : layer.inputs) {
    const std::string name = "operand/" + std::to_string(operands.size());
    const std::optional<std::size_t> producer = graph.producer(id);
    if (graph.is_constant(id)) {
      operands.push_back(alone.add_constant(name, graph.value(id).constant));
    } else if (producer && !varies[id]) {
      operands.push_back(alone.add_constant(name, base.layers[*producer].output));
    } else {
      const StoredTensor& tensor = producer ? base.layers[*producer].output : base.inputs.at(graph.value(id).name);
      operands.push_back(add_recorded(alone, name, tensor, is_batched));
      inputs.tensors.emplace_back(name, tensor);
    }
  }
  alone.outputs = {alone.add_node(layer.name, layer.op, std::move(operands))};
  const Evaluator evaluator = cpu_evaluator(cpu_arithmetic("fp64", {SummationOrder::Kind::pairwise, 0, false}));
  const StoredTensor exact = evaluator.run(alone, inputs).layers.front().output;
  const StoredTensor& recorded = base.layers[node].output;
  Tensor<double> values = exact.to_double();
  const Format& stored = format(stored_format(base.arithmetic, graph.value(layer.output).type));
  for (double& x : values.values) x = round_to(x, stored, Rounding::nearest_even);
  values.shape = recorded.shape();
  if (recorded.type() == ElementType::f64) return StoredTensor::from(values);
  Tensor<float> narrow(values.shape);
  std::transform(values.values.begin(), values.values.end(), narrow.values.begin(),
                 [](double x) { return static_cast<float>(x); });
  return StoredTensor::from(narrow);
}

}  // namespace

std::size_t promoted_node(const Graph& graph, std::string_view text) {
  std::string_view name = text;
  constexpr std::string_view ending = ":fp64";
  const auto is_layer = [&](std::string_view of) {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.name == of; });
  };
  if (!is_layer(name) && name.ends_with(ending)) name.remove_suffix(ending.size());
  const std::vector<bool> varies = depends_on_input(graph);
  std::string known;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].name == name) {
      if (!varies[graph.nodes[i].output])
        throw Unsupported("drift: --promote " + std::string(text) + ": the layer depends on no input");
      return i;
    }
    known += (known.empty() ? "" : ", ") + graph.nodes[i].name;
  }
  constexpr std::size_t most = 400;
  if (known.size() > most) known = known.substr(0, most) + " …";
  throw InvalidArgument(
      "drift: --promote " + std::string(text) +
      ": there is no such layer (LAYER or LAYER:fp64; `best` takes the most promising); there are: " + known);
}

Trace promoted_run(const Graph& graph, const Trace& base, std::size_t node,
                   const std::function<Trace(const Graph&, const Inputs&)>& evaluate) {
  const std::string given = "promoted";
  const StoredTensor promoted = in_float64(graph, base, node);
  Graph changed = graph;
  const ValueId input = add_recorded(changed, given, promoted, batch_layout(graph).batched);
  changed.nodes[node].op = op::Identity{};
  changed.nodes[node].inputs = {input};
  Inputs inputs = base.inputs;
  inputs.tensors.emplace_back(given, promoted);
  Trace trace = evaluate(changed, inputs);
  trace.inputs = base.inputs;
  trace.provenance.program = "'" + graph.nodes[node].name + "' in float64, else " + trace.provenance.program;
  return trace;
}

std::vector<std::size_t> most_promising(const TracedRun& run) {
  std::vector<std::size_t> nodes;
  const std::vector<bool> varies = depends_on_input(run.graph);
  for (std::size_t i = 0; i < run.graph.nodes.size(); ++i)
    if (varies[run.graph.nodes[i].output] && i < run.rms_without.size()) nodes.push_back(i);
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](std::size_t a, std::size_t b) { return run.rms_without[a] < run.rms_without[b]; });
  return nodes;
}

}  // namespace driftbound::analysis
