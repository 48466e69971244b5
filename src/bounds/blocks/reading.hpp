#pragma once

#include <string>

#include "bounds/adjoint/narrow_steps.hpp"
#include "bounds/nodes/node_view.hpp"

namespace driftbound::bounds {

struct RecordedBlock;
class OperandCache;

/// How the nodes of a recorded run read the operands of their products: the first reading, in the order nearest_even,
/// nearest_away, as_given, and each of them first without flushing, that all of its results can come from; either_way
/// where none of them explains all. Empty where the arithmetic leaves nothing open.
/// Guarantee: proven: the run is one of those that T-76 with these readings speaks of. Nodes of several products, and
/// such as do more than move elements and add, are either_way
/// Source:    docs/theory.md T-130
Readings readings_of(const Program& program, const RecordedBlock& block, const Setting& setting,
                     OperandCache& operands);

/// What bounds that take the readings of a narrowed network for granted stand on, in words; empty: nothing.
std::string reading_condition(const NarrowedProgram& narrowed, const Machine& machine);

}  // namespace driftbound::bounds
