#pragma once

#include <vector>

#include "bounds/adjoint/sweep.hpp"
#include "driftbound/bounds/bound.hpp"

namespace driftbound::bounds {

/// One recorded run next to the shadow. Values inside composites are those of their steps in double.
class RecordedRun {
public:
  /// `recorded` by node of the original graph, `used` by position in its inputs.
  RecordedRun(const Network& network, const Shadow& shadow, const std::vector<const Tensor<double>*>& recorded,
              const std::vector<Tensor<double>>& used, const Setting& setting);

  /// Over the reals the parts add up to c.(recorded - shadow) exactly, kinks and curvature included; in double but for
  /// about 10^-9 of it. The split between operands of one node is a convention: the mean of both orders.
  /// Guarantee: none; the sum is its own check
  /// Source:    docs/theory.md T-73
  Attribution attribute(const Direction& c) const;

private:
  struct Step;

  const Network& network_;
  const Shadow& shadow_;
  const Setting& setting_;
  std::vector<Tensor<double>> values_;                    ///< of the run, by value of the flat graph
  std::vector<std::vector<double>> rounding_;             ///< recorded - f(recorded operands) in double; empty: 0
  std::vector<std::vector<std::vector<double>>> slopes_;  ///< secants, by node
};

}  // namespace driftbound::bounds
