#pragma once

#include <cstddef>
#include <optional>

#include "program/program.hpp"

namespace driftbound {

/// The node of the original graph whose output a node of the program computes; empty if the value lies inside a
/// composite.
inline std::optional<std::size_t> layer_of(const Program& program, std::size_t node) {
  const std::size_t layer = program.flat().of_node[node];
  return program.value_of_node(layer) == program.nodes()[node].output ? std::optional(layer) : std::nullopt;
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
