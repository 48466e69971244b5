#pragma once

#include <optional>
#include <vector>

#include "bounds/arithmetic/machine.hpp"
#include "bounds/nodes/product_reading.hpp"
#include "bounds/theorems/rounded_shadow.hpp"
#include "program/program.hpp"

namespace driftbound::bounds {

/// Which nodes of a flat graph round to a narrow format and do nothing else, and what others leave to them.
struct NarrowSteps {
  std::vector<std::optional<NarrowRounding>> rounding;  ///< by node
  std::vector<bool>
      may_be_left_out;      ///< by node: it stores a result or is a Cast of the model, which a program may fuse past
  std::vector<bool> keeps;  ///< by node: its result stays a number of the accumulator, or is one of the output format
  std::vector<ProductReading> readings;  ///< by node
};

/// A flat graph in which operands of products that are read in a narrow format, and results of nodes that are stored in
/// one, pass through a Cast of their own (whose target says nothing); the model's own narrow Casts are such nodes too.
/// Operands that are read as they are, or either way, have none.
/// Results of the nodes inside a composite may be stored or not, and have none.
struct NarrowGraph {
  FlatGraph flat;
  NarrowSteps steps;
};

/// Source:    docs/theory.md T-76, T-130
NarrowGraph with_narrow_steps(const FlatGraph& flat, const Machine& machine, const Readings& readings);

/// A program whose roundings to narrow formats are nodes.
class NarrowedProgram : public Program {
public:
  NarrowedProgram(const Program& program, const Machine& machine, const Readings& readings);

  const NarrowSteps& steps() const { return steps_; }
  const Readings& readings() const { return readings_; }

private:
  NarrowSteps steps_;
  Readings readings_;  ///< of its products
};

/// Empty where nothing that varies is rounded to a narrow format, or read otherwise.
std::optional<NarrowedProgram> narrowed_program(const Program& program, const Machine& machine,
                                                const Readings& readings = {});

}  // namespace driftbound::bounds
