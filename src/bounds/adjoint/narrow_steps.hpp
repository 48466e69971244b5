#pragma once

#include <optional>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/nodes/product_reading.hpp"
#include "bounds/theorems/rounded_shadow.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

// Flat graphs in which every rounding to a narrow format is a node of its own, as the rounded shadow (docs/theory.md
// T-76) needs them.

/// Per node of a flat graph: whether the node only rounds to a narrow format, and which roundings other nodes make as
/// separate nodes.
struct NarrowSteps {
  std::vector<std::optional<NarrowRounding>> rounding;  ///< the rounding that the node is; empty: another op
  /// The node stores a result or is a narrow Cast of the model; a program that fuses ops may omit this rounding.
  std::vector<bool> may_be_left_out;
  std::vector<bool> keeps;               ///< the node itself makes no rounding to the output format
  std::vector<ProductReading> readings;  ///< the reading of the products of the layer that the node belongs to
};

/// A flat graph with additional Cast nodes: one for every operand of a product that is rounded to a narrow format when
/// it is read, and one for every result of a node of the model that is stored in a narrow format. The format of such a
/// node is in NarrowSteps::rounding, not in its Cast. Narrow Casts of the model are rounding nodes too. No node is
/// added for operands that are read unrounded or in an undetermined way, nor for results of nodes inside a composite,
/// which a program may or may not store.
struct NarrowGraph {
  FlatGraph flat;
  NarrowSteps steps;
};

/// Adds the rounding nodes to a flat graph.
/// Source:    docs/theory.md T-76, T-130
NarrowGraph with_narrow_steps(const FlatGraph& flat, const Machine& machine, const Readings& readings);

/// A program whose roundings to narrow formats are nodes, as with_narrow_steps() adds them.
class NarrowedProgram : public Program {
public:
  /// Domain:    `program` has no Rewrite
  NarrowedProgram(const Program& program, const Machine& machine, const Readings& readings);

  const NarrowSteps& steps() const { return steps_; }
  const Readings& readings() const { return readings_; }

private:
  NarrowedProgram(const Program& program, const Machine& machine, const Readings& readings, NarrowGraph narrow);

  NarrowSteps steps_;
  Readings readings_;
};

/// Returns the program with its narrow roundings as nodes. Returns nothing if no value that depends on the inputs is
/// rounded to a narrow format or comes from a product whose reading is as_given or either_way.
std::optional<NarrowedProgram> narrowed_program(const Program& program, const Machine& machine,
                                                const Readings& readings = {});

}  // namespace driftbound::bounds
