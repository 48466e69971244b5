#include "bounds/nodes/node_settings.hpp"

#include <algorithm>

namespace driftbound::bounds {

NodeSettings::NodeSettings(const Program& program, const Setting& setting)
    : largest_(program.size(), setting.machine.accumulator->largest) {
  for (const Node& node : program.nodes()) {
    const ElementType declared = program.flat().graph.value(node.output).type;
    const Machine machine = machine_at(setting.machine, declared, !program.is_layer(node.output));
    largest_[node.output] = std::min(largest_[node.output], machine.output->largest);
    if (machine.output == setting.machine.output) {
      of_node_.push_back(&setting);
      continue;
    }
    const auto [entry, is_new] = by_output_.try_emplace(machine.output->id, setting);
    if (is_new) entry->second.machine = machine;
    of_node_.push_back(&entry->second);
  }
}

}  // namespace driftbound::bounds
