#pragma once

#include <string>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

struct RecordedBlock;
class OperandCache;

/// Detects how the nodes of a recorded run read the operands of their products. The readings nearest_even, nearest_away
/// and as_given (as_declared and as_given if the unit cuts operands) are tried in this order, all without flushing
/// before all with flushing. The first one that is consistent with all results of the node is taken; either_way if none
/// is. Nodes with several products, or with other steps than data movement and additions, are either_way.
/// Returns:   by node of the graph, empty for nodes without products; empty if the arithmetic determines the reading
/// Guarantee: proven: T-76 with these readings applies to the run
/// Source:    docs/theory.md T-130
Readings readings_of(const Program& program, const RecordedBlock& block, const Setting& setting,
                     OperandCache& operands);

/// Returns the condition, in words, of bounds that assume the readings of a narrowed network; empty: none.
std::string reading_condition(const NarrowedProgram& narrowed, const Machine& machine);

}  // namespace driftbound::bounds
