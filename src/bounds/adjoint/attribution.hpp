#pragma once

#include <vector>

#include "bounds/adjoint/sweep.hpp"
#include "bounds/nodes/wide.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

struct RecordedBlock;  // nodes/recorded_block.hpp

/// One recorded run next to the exact network, whose values are followed as differences from the run's (Wide). Values
/// inside composites are those of their steps in that precision.
class RecordedRun {
public:
  /// The shadow gives slopes where run and exact network agree, and values where 2^-52 of them does not matter.
  RecordedRun(const Program& program, const Shadow& shadow, const RecordedBlock& block, const Setting& setting);

  /// Over the reals the parts add up to c.(recorded - exact) exactly, kinks and curvature included; lost is what Wide
  /// loses of a rounding. The split between operands of one node is a convention: the mean of both orders.
  /// Guarantee: none; the sum is its own check
  /// Source:    docs/theory.md T-73
  Attribution attribute(const Direction& c) const;

private:
  struct Step;

  const Program& program_;
  const Shadow& shadow_;
  const Setting& setting_;
  std::vector<ExtendedValue> values_;                     ///< by value of the flat graph; nothing for constants
  std::vector<std::vector<double>> rounding_;             ///< recorded - f(recorded operands); empty: 0
  std::vector<std::vector<std::vector<double>>> slopes_;  ///< secants, by node
};

}  // namespace driftbound::bounds
