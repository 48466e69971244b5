#include "bounds/adjoint/reading.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "bounds/adjoint/block_bounds.hpp"
#include "bounds/adjoint/rounded_shadow.hpp"
#include "bounds/adjoint/row_bounds.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t most_names = 4;

bool is_product(const Node& node) {
  return std::holds_alternative<op::Gemm>(node.op) || std::holds_alternative<op::MatMul>(node.op);
}

/// By node of the original graph, whether products of what a run has recorded are among its steps.
std::vector<bool> multiplying_nodes(const Network& network) {
  std::vector<bool> multiplies(network.graph().nodes.size(), false);
  for (std::size_t i = 0; i < network.nodes().size(); ++i)
    if (is_product(network.nodes()[i])) multiplies[network.flat().of_node[i]] = true;
  return multiplies;
}

/// One node with operands that a run recorded.
class RecordedNode {
public:
  RecordedNode(const Graph& graph, const Node& node, const std::vector<const Tensor<double>*>& recorded) {
    std::map<ValueId, ValueId> copies;
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      if (!copies.contains(id)) copies[id] = add(graph, id, recorded[id]);
      inputs.push_back(copies[id]);
    }
    alone_.outputs = {alone_.add_node(node.name, node.op, inputs)};
    result_ = recorded[node.output];
    network_.emplace(alone_, shapes_, std::nullopt);
  }

  /// Whether every result can be that of products which read so.
  bool may_read(ProductReading reading, const Setting& setting, Weights& weights) const {
    const std::optional<Network> narrowed = network_->narrowed(setting.machine, {reading});
    if (!narrowed) return false;
    const std::vector<std::vector<double>> no_error(operands_.size());
    const RoundedShadow run = rounded_shadow_of(*narrowed, operands_, no_error, setting, weights);
    const ValueId id = narrowed->value_of_node(0);
    const Tensor<double>& centre = run.shadow.value(id);
    for (std::size_t i = 0; i < result_->size(); ++i) {
      const double own = 2.0 * radius_at(run.shadow.error[id], i).value();
      const double radius = sub_down(radius_at(run.deviation.radii[id].element, i).value(), own);
      if (!(deviation_at(result_->values[i], centre.values[i]).magnitude().value() <= radius)) return false;
    }
    return true;
  }

private:
  ValueId add(const Graph& graph, ValueId id, const Tensor<double>* recorded) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::constant) return alone_.add_constant(value.name, value.constant);
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : recorded->shape) declared.push_back({extent, ""});
    shapes_.push_back(recorded->shape);
    operands_.push_back(*recorded);
    return alone_.add_input(value.name, value.type, std::move(declared));
  }

  Graph alone_;
  std::vector<Shape> shapes_;
  std::vector<Tensor<double>> operands_;
  const Tensor<double>* result_ = nullptr;
  std::optional<Network> network_;
};

bool leaves_flushing_open(const Machine& machine) {
  return machine.products_may_flush && !machine.flushes;
}

/// In the order in which they are tried.
std::vector<ProductReading> possible_readings(const Machine& machine) {
  const std::vector<Reading> operands =
      machine.tensor_core->cuts_operands ? std::vector{Reading::as_declared, Reading::as_given}
                                         : std::vector{Reading::nearest_even, Reading::nearest_away, Reading::as_given};
  std::vector<ProductReading> readings;
  for (const Reading reading : operands) readings.push_back({reading, machine.flushes});
  if (leaves_flushing_open(machine))
    for (const Reading reading : operands) readings.push_back({reading, true});
  return readings;
}

ProductReading reading_of(const RecordedNode& node, const Setting& setting, Weights& weights) {
  for (const ProductReading reading : possible_readings(setting.machine))
    if (node.may_read(reading, setting, weights)) return reading;
  return {Reading::either_way, true};
}

std::string describe(Reading operands, const Machine& machine) {
  const std::string format(machine.input->name);
  switch (operands) {
    case Reading::nearest_even:
      return "rounded to nearest, ties to even, in " + format;
    case Reading::nearest_away:
      return "rounded to nearest, ties away from zero, in " + format;
    case Reading::as_given:
      return "as they are, not rounded to " + format;
    case Reading::either_way:
      return "rounded to " + format + " or not";
    case Reading::as_declared:
      break;
  }
  return machine.tensor_core->cuts_operands ? "cut toward zero to " + format : "rounded to nearest in " + format;
}

std::string describe(ProductReading reading, const Machine& machine) {
  const bool keeps_all = !reading.may_flush && leaves_flushing_open(machine);
  return describe(reading.operands, machine) + (keeps_all ? ", subnormal numbers kept" : "");
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), most_names); ++i) list += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > most_names) list += " and " + std::to_string(names.size() - most_names) + " more";
  return list;
}

}  // namespace

bool is_rounded(Reading reading) {
  return reading != Reading::as_given && reading != Reading::either_way;
}

bool leaves_readings_open(const Machine& machine) {
  return machine.tensor_core.has_value() && machine.input != machine.accumulator;
}

Readings readings_of(const Network& network, const RecordedBlock& block, const Setting& setting, Weights& weights) {
  if (!leaves_readings_open(setting.machine)) return {};
  const Graph& graph = network.graph();
  std::vector<const Tensor<double>*> recorded(graph.values.size(), nullptr);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) recorded[graph.inputs[i]] = &block.used[i];
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) recorded[graph.nodes[node].output] = block.layers[node];
  const std::vector<bool> multiplies = multiplying_nodes(network);
  Readings readings(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node)
    if (multiplies[node]) readings[node] = reading_of({graph, graph.nodes[node], recorded}, setting, weights);
  return readings;
}

std::string reading_condition(const Network& narrowed, const Machine& machine) {
  const std::string products = "products read their operands ";
  if (narrowed.readings().empty()) return products + describe(ProductReading(), machine) + ", all of them (A-07)";
  std::map<ProductReading, std::vector<std::string>> names;
  for (std::size_t node = 0; node < narrowed.readings().size(); ++node)
    if (const auto reading = narrowed.readings()[node]) names[*reading].push_back(narrowed.graph().nodes[node].name);
  if (names.size() == 1)
    return products + describe(names.begin()->first, machine) + ", all of them, as in this run (A-07)";
  std::string condition = products + "as in this run (A-07):";
  for (const auto& [reading, of_nodes] : names)
    condition += (condition.back() == ':' ? " " : "; ") + listed(of_nodes) + " " + describe(reading, machine);
  return condition;
}

}  // namespace driftbound::bounds
