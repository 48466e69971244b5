#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "driftbound/model/graph.hpp"
#include "implicit/block_kernels.hpp"
#include "implicit/packer.hpp"
#include "implicit/workspace.hpp"

namespace driftbound::implicit {

/// The networks of PackedNetwork whose constants are stored as they are used, in double-double, pair_rows points at a
/// time. Thread-safe when const.
/// Guarantee: every result of every op is within what bounds::pair_rounding() says of the op at its operands, or the
///            value is NaN
/// Source:    docs/theory.md T-114
class PairNetwork {
public:
  /// Null where the network, of one float64 input and one output element a sample, has other ops, computes constants,
  /// takes one sample at a time, or has layers so large that balls are as fast.
  static std::unique_ptr<const PairNetwork> of(const Graph& graph,
                                               const PairBlockKernels& kernels = fastest_pair_block_kernels());

  std::unique_ptr<Workspace> workspace() const { return workspaces_.take(); }
  void give_back(std::unique_ptr<Workspace> workspace) const { workspaces_.give_back(std::move(workspace)); }

  std::size_t dimension() const { return network_.dimension; }
  /// high + low, |low| <= 2^-53 |high|, one a point.
  /// Shapes:    `points` row by row, at most pair_rows of them
  void evaluate(std::span<const double> points, Workspace& workspace, std::span<double> high,
                std::span<double> low) const;

private:
  explicit PairNetwork(PackedSteps<double> network);

  PackedSteps<double> network_;
  mutable Workspaces workspaces_;
};

}  // namespace driftbound::implicit
