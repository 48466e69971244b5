#pragma once

#include <cstddef>
#include <vector>

#include "program/program.hpp"

namespace driftbound {

/// By value of the flat graph: the nodes of the original graph with this output. A composite that returns its operand
/// shares its value with the operand's node.
inline std::vector<std::vector<std::size_t>> layers_by_value(const Program& program) {
  std::vector<std::vector<std::size_t>> layers(program.size());
  for (std::size_t node = 0; node < program.graph().nodes.size(); ++node)
    layers[program.value_of_node(node)].push_back(node);
  return layers;
}

/// Computes the nodes of a program in order: those that depend on the inputs, or those that do not. For every node
/// calls domain.forward(node), then domain.release(value) for every value that no later node reads.
template <class Domain>
void walk(const Program& program, bool varying, Domain&& domain) {
  for (std::size_t node = 0; node < program.nodes().size(); ++node) {
    if (program.varies(program.nodes()[node].output) != varying) continue;
    domain.forward(node);
    for (const ValueId id : program.last_reads()[node]) domain.release(id);
  }
}

}  // namespace driftbound
