#include "bounds/blocks/reading.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "bounds/blocks/rounded_shadow.hpp"
#include "bounds/nodes/recorded_block.hpp"
#include "bounds/theorems/rounded_shadow.hpp"
#include "driftbound/model/op_groups.hpp"
#include "driftbound/num/directed.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t most_names = 4;

/// By node of the original graph: whether its steps include a matrix product.
std::vector<bool> multiplying_nodes(const Program& program) {
  std::vector<bool> multiplies(program.graph().nodes.size(), false);
  for (std::size_t i = 0; i < program.nodes().size(); ++i)
    if (multiplies_matrices(program.nodes()[i].op)) multiplies[program.flat().of_node[i]] = true;
  return multiplies;
}

bool moves_or_adds(const Op& op) {
  return std::visit([](const auto& which) { return Selection<std::decay_t<decltype(which)>>; }, op) ||
         std::holds_alternative<op::Add>(op);
}

/// One node as a graph of its own, with its recorded operands as inputs.
class RecordedNode {
public:
  RecordedNode(const Graph& graph, const Node& node, const std::vector<const Tensor<double>*>& recorded) {
    const bool is_fixed =
        std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) { return graph.is_constant(id); });
    std::map<ValueId, ValueId> copies;
    std::vector<ValueId> inputs;
    for (const ValueId id : node.inputs) {
      const bool keeps_constant = graph.is_constant(id) && !is_fixed;
      if (!copies.contains(id))
        copies[id] = keeps_constant ? alone_.add_constant(graph.value(id).name, graph.value(id).constant)
                                    : add_input(graph.value(id), recorded[id]);
      inputs.push_back(copies[id]);
    }
    alone_.outputs = {alone_.add_node(node.name, node.op, inputs)};
    result_ = recorded[node.output];
    program_.emplace(alone_, shapes_, std::nullopt);
  }

  /// Whether the node consists of one product and otherwise of data movement and additions.
  bool is_one_product() const {
    const std::vector<Node>& steps = program_->nodes();
    const auto multiplies = [](const Node& step) { return multiplies_matrices(step.op); };
    return std::count_if(steps.begin(), steps.end(), multiplies) == 1 &&
           std::all_of(steps.begin(), steps.end(),
                       [&](const Node& step) { return multiplies(step) || moves_or_adds(step.op); });
  }

  /// Whether every recorded result is consistent with a product that reads its operands so.
  /// Domain:    is_one_product()
  bool may_read(ProductReading reading, const Setting& setting, OperandCache& operands) const {
    const std::optional<NarrowedProgram> narrowed = narrowed_program(*program_, setting.machine, {reading});
    if (!narrowed) return false;
    const std::vector<std::vector<double>> no_error(operands_.size());
    const RoundedShadow run = rounded_shadow_of(*narrowed, operands_, no_error, setting, operands);
    const bool is_alone = program_->nodes().size() == 1;
    return is_alone ? are_results_of(*narrowed, run) : are_near(*narrowed, run, setting.machine);
  }

private:
  ValueId add_input(const Value& value, const Tensor<double>* recorded) {
    operands_.push_back(recorded != nullptr ? *recorded : value.constant.to_double());
    shapes_.push_back(operands_.back().shape);
    std::vector<DeclaredDimension> declared;
    for (const std::int64_t extent : shapes_.back()) declared.push_back({extent, ""});
    return alone_.add_input(value.name, value.type, std::move(declared));
  }

  /// For a product without other steps: whether every result lies within the rounding errors of the sum or, if the
  /// result is stored in another format, is a possible rounding of such a number.
  bool are_results_of(const NarrowedProgram& narrowed, const RoundedShadow& run) const {
    const auto product = std::find_if(narrowed.nodes().begin(), narrowed.nodes().end(),
                                      [](const Node& step) { return multiplies_matrices(step.op); });
    const ValueId sum = product->output;
    const bool is_stored = narrowed.value_of_node(0) != sum;
    const std::optional<NarrowRounding>& storing = narrowed.steps().rounding.back();
    const Tensor<double>& centre = run.shadow.value(sum);
    for (std::size_t i = 0; i < result_->size(); ++i) {
      const double y = result_->values[i];
      if (!std::isfinite(y)) continue;
      const double own = 2.0 * radius_at(run.shadow.error[sum], i).value();
      const double radius = sub_down(radius_at(run.deviation.added[sum], i).value(), own);
      if (!(radius >= 0.0)) return false;
      if (is_stored) {
        const Hull stored = theorems::hull_rounded(centre.values[i], radius, *storing);
        if (!(stored.lower <= y && y <= stored.upper)) return false;
      } else if (!(deviation_at(y, centre.values[i]).magnitude().value() <= radius)) {
        return false;
      }
    }
    return true;
  }

  /// For a product with other steps: whether every result lies within the rounding errors of the steps. False if a
  /// rounding is undecided. Each radius is reduced by a bound of the share that rounding errors of double have in it.
  bool are_near(const NarrowedProgram& narrowed, const RoundedShadow& run, const Machine& machine) const {
    if (run.ambiguous.front() != 0) return false;
    const ValueId id = narrowed.value_of_node(0);
    const Tensor<double>& centre = run.shadow.value(id);
    const double share_of_double =
        static_cast<double>(fan_in(alone_, alone_.nodes.front(), shapes()) + 8) * 0x1p-53 / machine.u;
    for (std::size_t i = 0; i < result_->size(); ++i) {
      const double y = result_->values[i];
      if (!std::isfinite(y)) continue;
      const double radius =
          mul_down(1.0 - 4.0 * share_of_double, radius_at(run.deviation.radii[id].element, i).value());
      if (!(deviation_at(y, centre.values[i]).magnitude().value() <= radius)) return false;
    }
    return true;
  }

  std::vector<Shape> shapes() const { return infer_shapes(alone_, shapes_); }

  Graph alone_;
  std::vector<Shape> shapes_;
  std::vector<Tensor<double>> operands_;
  const Tensor<double>* result_ = nullptr;
  std::optional<Program> program_;
};

bool leaves_flushing_open(const Machine& machine) {
  return machine.products_may_flush && !machine.flushes;
}

/// The readings that the machine admits, in the order in which they are tried.
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

ProductReading reading_of(const RecordedNode& node, const Setting& setting, OperandCache& operands) {
  if (!node.is_one_product()) return {Reading::either_way, true};
  for (const ProductReading reading : possible_readings(setting.machine))
    if (node.may_read(reading, setting, operands)) return reading;
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
      return "as they are, not rounded to " + format + ", added up by float32 operations";
    case Reading::either_way:
    case Reading::as_declared:
      break;
  }
  return machine.tensor_core->cuts_operands ? "cut toward zero to " + format : "rounded to nearest in " + format;
}

std::string describe(ProductReading reading, const Machine& machine) {
  const bool keeps_all = !reading.may_flush && leaves_flushing_open(machine);
  return describe(reading.operands, machine) + (keeps_all ? ", nothing flushed" : "");
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), most_names); ++i) list += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > most_names)
    list += " and " + std::to_string(names.size() - most_names) + " more (reading in the JSON report)";
  return list;
}

}  // namespace

Readings readings_of(const Program& program, const RecordedBlock& block, const Setting& setting,
                     OperandCache& operands) {
  if (!leaves_readings_open(setting.machine)) return {};
  const Graph& graph = program.graph();
  std::vector<const Tensor<double>*> recorded(graph.values.size(), nullptr);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) recorded[graph.inputs[i]] = &block.used[i];
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) recorded[graph.nodes[node].output] = block.layers[node];
  const std::vector<bool> multiplies = multiplying_nodes(program);
  Readings readings(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node)
    if (multiplies[node]) readings[node] = reading_of({graph, graph.nodes[node], recorded}, setting, operands);
  return readings;
}

std::string reading_condition(const NarrowedProgram& narrowed, const Machine& machine) {
  if (narrowed.readings().empty())
    return "products read their operands " + describe(ProductReading(), machine) + ", all of them (A-07)";
  std::map<ProductReading, std::vector<std::string>> names;
  std::size_t products = 0;
  for (std::size_t node = 0; node < narrowed.readings().size(); ++node) {
    const std::optional<ProductReading>& reading = narrowed.readings()[node];
    if (!reading) continue;
    ++products;
    if (reading->operands != Reading::either_way) names[*reading].push_back(narrowed.graph().nodes[node].name);
  }
  std::string condition;
  for (const auto& [reading, of_nodes] : names) {
    condition += condition.empty() ? "products read their operands as in this run, sample by sample (A-07): " : "; ";
    condition += (of_nodes.size() == products ? "all of them" : listed(of_nodes)) + " " + describe(reading, machine);
  }
  return condition;
}

}  // namespace driftbound::bounds
