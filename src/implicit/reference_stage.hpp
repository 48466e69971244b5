#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "driftbound/implicit/sign_field.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/reference/reference.hpp"

namespace driftbound::implicit {

/// Balls of rising precision until they say which sign a number has. Thread-safe when const.
/// Guarantee: proven
/// Source:    docs/theory.md T-110
class ReferenceStage {
public:
  /// The graph, of one output element a sample, must outlive it.
  explicit ReferenceStage(const Graph& graph);

  /// Double-double.
  /// Shapes:    `points` row by row, `out` one entry a row
  void decide_in_pairs(std::span<const double> points, std::span<PointSign> out) const;
  /// At least 256 bits, doubled until all are decided or max_bits are reached.
  void decide(std::span<const double> points, int max_bits, std::span<PointSign> out) const;

private:
  void decide(std::span<const double> points, const PrecisionPolicy& policy, SignStage stage,
              std::span<PointSign> out) const;

  const Graph& graph_;
  bool batched_;
  Shape sample_;
  ReferenceMaker maker_;
};

}  // namespace driftbound::implicit
