#pragma once

#include <memory>
#include <span>

#include "driftbound/model/graph.hpp"

namespace driftbound::implicit {

/// A number in float64 and how far the exact one can be from it, point by point. Thread-safe when const.
/// Guarantee: proven
/// Source:    docs/theory.md T-82
class PointStage {
public:
  /// Null where the network has an op without a line in the table of T-82, takes one sample at a time, or is constant.
  /// The graph, of one output element a sample, must outlive it.
  static std::unique_ptr<const PointStage> of(const Graph& graph);
  virtual ~PointStage() = default;

  /// Shapes:    `points` row by row; values and bounds one entry a row. Infinite bounds: nothing is known.
  virtual void evaluate(std::span<const double> points, std::span<double> values, std::span<double> bounds) const = 0;
};

}  // namespace driftbound::implicit
