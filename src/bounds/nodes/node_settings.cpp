#include "bounds/nodes/node_settings.hpp"

#include <cmath>

namespace driftbound::bounds {

NodeSettings::NodeSettings(const Program& program, const Setting& setting)
    : stored_(program.size(), setting.machine.accumulator) {
  for (const Node& node : program.nodes()) {
    const ElementType declared = program.flat().graph.value(node.output).type;
    const Machine machine = machine_at(setting.machine, declared, !program.is_layer(node.output));
    if (machine.output->largest < stored_[node.output]->largest) stored_[node.output] = machine.output;
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
