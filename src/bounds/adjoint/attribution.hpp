#pragma once

#include <vector>

#include "bounds/adjoint/sweep.hpp"
#include "bounds/nodes/wide.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

struct RecordedBlock;  // nodes/recorded_block.hpp

/// Attributes the error of a recorded run to nodes and inputs, by secants between the run and the exact network. The
/// difference run - exact of every value is computed in Wide. Values inside composites, which are not recorded, are
/// computed in Wide from the recorded operands.
class RecordedRun {
public:
  /// The shadow provides the slopes of elements at which run and exact network agree, and values that are needed only
  /// to double precision.
  RecordedRun(const Program& program, const Shadow& shadow, const RecordedBlock& block, const Setting& setting);

  /// Returns the contributions of nodes and inputs to c.(recorded - exact). In exact arithmetic they add up to it
  /// exactly, including the effects of kinks and curvature; the rounding errors of Wide are not accounted for. The
  /// split between the operands of one node is a convention: the mean over both orders.
  /// Guarantee: none; the sum can be compared with the error
  /// Source:    docs/theory.md T-73
  Attribution attribute(const Direction& c) const;

private:
  struct Step;

  const Program& program_;
  const Shadow& shadow_;
  const Setting& setting_;
  std::vector<ExtendedValue> values_;                     ///< by value of the flat graph; empty for constants
  std::vector<std::vector<double>> rounding_;             ///< by value: recorded - f(recorded operands); empty: 0
  std::vector<std::vector<std::vector<double>>> slopes_;  ///< by node: secants, as approx_secants() returns them
};

}  // namespace driftbound::bounds
