#include "bounds/nodes/node_settings.hpp"

#include <cmath>

#include "driftbound/model/op_groups.hpp"

namespace driftbound::bounds {

std::optional<Machine> found_machine(const Op& op, std::size_t node_of_graph, const Graph& graph,
                                     const Setting& setting) {
  if (setting.found == nullptr || setting.found->empty() || !multiplies_matrices(op)) return std::nullopt;
  const std::optional<ArithmeticModel>& found = setting.found->at(node_of_graph);
  if (!found) return std::nullopt;
  Machine machine = machine_of(*found, &graph);
  machine.stores_inside = setting.machine.stores_inside;
  return machine;
}

NodeSettings::NodeSettings(const Program& program, const Setting& setting, Sums sums)
    : stored_(program.size(), setting.machine.accumulator) {
  for (std::size_t index = 0; index < program.nodes().size(); ++index) {
    const Node& node = program.nodes()[index];
    const ElementType declared = program.flat().graph.value(node.output).type;
    const Machine machine = machine_at(setting.machine, declared, !program.is_layer(node.output));
    if (machine.output->largest < stored_[node.output]->largest) stored_[node.output] = machine.output;
    const std::optional<Machine> found =
        sums == Sums::in_order ? found_machine(node.op, program.flat().of_node[index], program.graph(), setting)
                               : std::nullopt;
    if (found) {
      found_.push_back(setting);
      found_.back().machine = machine_at(*found, declared, !program.is_layer(node.output));
      of_node_.push_back(&found_.back());
      continue;
    }
    if (machine.output == setting.machine.output) {
      of_node_.push_back(&setting);
      continue;
    }
    const auto [entry, is_new] = by_output_.try_emplace(machine.output->id, setting);
    if (is_new) entry->second.machine = machine;
    of_node_.push_back(&entry->second);
  }
}

double NodeSettings::half_beyond_largest(ValueId id) const {
  const double units = stored_[id]->id == FormatId::fp64 ? 4.0 : 2.0;  // in double, halves of sums are rounded up
  return 0.5 * stored_[id]->largest * (1.0 + std::ldexp(2.0 * units, -stored_[id]->precision));
}

}  // namespace driftbound::bounds
