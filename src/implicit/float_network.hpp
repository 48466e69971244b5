#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "driftbound/bounds/box.hpp"
#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "implicit/block_kernels.hpp"
#include "implicit/packer.hpp"
#include "implicit/workspace.hpp"

namespace driftbound::implicit {

/// The networks of PackedNetwork whose constants are float32 numbers and stored as they are used, without Exp and Erf, in
/// float32 over a box, block_rows points at a time. Thread-safe when const.
/// Guarantee: every value is that of a run of arithmetic() at the point rounded to float32, or NaN
/// Source:    docs/theory.md T-115
class FloatNetwork {
public:
  /// Null where the network, of one float64 input and one output element a sample, is no such network, or the box
  /// reaches beyond the range of float32.
  static std::unique_ptr<const FloatNetwork> of(const Graph& graph, const Box& box,
                                                const FloatBlockKernels& kernels = fastest_float_block_kernels());

  /// float32 with the sums of the kernels, in chains, fused or not, and functions as accurate as T-113 says.
  static ArithmeticModel arithmetic(const FloatBlockKernels& kernels = fastest_float_block_kernels());

  std::unique_ptr<FloatWorkspace> workspace() const { return workspaces_.take(); }
  void give_back(std::unique_ptr<FloatWorkspace> workspace) const { workspaces_.give_back(std::move(workspace)); }

  std::size_t dimension() const { return network_.dimension; }
  /// `points` row by row, at most block_rows of them; one value each, NaN where the point lies outside the box, or some
  /// number on the way is not finite or no argument of a function's kernel.
  void evaluate(std::span<const double> points, FloatWorkspace& workspace, std::span<float> values) const;

private:
  FloatNetwork(PackedSteps<float> network, const Box& box)
      : network_(std::move(network)), box_(box), workspaces_(network_.size * block_rows) {}

  void read(std::span<const double> points, std::size_t rows, float* x, float* check) const;

  PackedSteps<float> network_;
  Box box_;
  mutable FloatWorkspaces workspaces_;
};

}  // namespace driftbound::implicit
