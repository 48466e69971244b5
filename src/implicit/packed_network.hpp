#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "implicit/block_kernels.hpp"
#include "implicit/packer.hpp"
#include "implicit/workspace.hpp"

namespace driftbound::implicit {

/// A network of dense layers, arithmetic by elements, largest and smallest values and functions in float64, block_rows
/// points at a time: values stay near the processor from layer to layer. Thread-safe when const.
/// Guarantee: every value is that of a run of arithmetic() at the point as given, or NaN
class PackedNetwork {
public:
  /// Null where the network, of one float64 input and one output element a sample, has other ops or takes one sample at
  /// a time.
  static std::unique_ptr<const PackedNetwork> of(const Graph& graph,
                                                 const BlockKernels& kernels = fastest_block_kernels());

  /// float64 with sums in any order, fused or not, and functions as accurate as T-80 and T-113 say.
  static ArithmeticModel arithmetic();

  std::unique_ptr<Workspace> workspace() const { return workspaces_.take(); }
  void give_back(std::unique_ptr<Workspace> workspace) const { workspaces_.give_back(std::move(workspace)); }

  std::size_t dimension() const { return network_.dimension; }
  /// `points` row by row, at most block_rows of them; one value each, NaN where some number on the way is not finite or
  /// no argument of a function's kernel.
  void evaluate(std::span<const double> points, Workspace& workspace, std::span<double> values) const;
  /// The value at one point, the same bits; takes memory the first time that a thread calls it.
  double evaluate(std::span<const double> point) const;

private:
  explicit PackedNetwork(PackedSteps<double> network)
      : network_(std::move(network)), workspaces_(network_.size * block_rows) {}

  bool run(double* workspace, std::size_t rows, double* check) const;
  double evaluate(std::span<const double> point, double* workspace) const;

  PackedSteps<double> network_;
  mutable Workspaces workspaces_;
};

}  // namespace driftbound::implicit
