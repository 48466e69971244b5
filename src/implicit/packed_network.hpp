#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "driftbound/model/graph.hpp"
#include "driftbound/trace/arithmetic.hpp"
#include "implicit/block_kernels.hpp"

namespace driftbound::implicit {

/// Numbers at multiples of 64 bytes, 0 at first.
class AlignedDoubles {
public:
  AlignedDoubles() = default;
  explicit AlignedDoubles(std::size_t size);
  double* data() { return values_.get(); }
  const double* data() const { return values_.get(); }
  double& operator[](std::size_t i) { return values_.get()[i]; }

private:
  struct Free {
    void operator()(double* p) const;
  };
  std::unique_ptr<double[], Free> values_;
};

class PackedStep;

/// A network of dense layers, arithmetic by elements, largest and smallest values and functions in float64, block_rows points at a time:
/// values stay near the processor from layer to layer. Thread-safe when const.
/// Guarantee: every value is that of a run of arithmetic() at the point as given, or NaN
class PackedNetwork {
public:
  /// Null where the network, of one float64 input and one output element a sample, has other ops or takes one sample at
  /// a time.
  static std::unique_ptr<const PackedNetwork> of(const Graph& graph,
                                                 const BlockKernels& kernels = fastest_block_kernels());
  ~PackedNetwork();

  /// float64 with sums in any order, fused or not, and functions as accurate as T-80 says.
  static ArithmeticModel arithmetic();

  /// What one thread writes to.
  using Workspace = AlignedDoubles;
  std::unique_ptr<Workspace> workspace() const;
  void give_back(std::unique_ptr<Workspace> workspace) const;

  std::size_t dimension() const { return dimension_; }
  /// `points` row by row, at most block_rows of them; one value each, NaN where some number on the way is not finite or
  /// no argument of a function's kernel.
  void evaluate(std::span<const double> points, Workspace& workspace, std::span<double> values) const;
  /// The value at one point, the same bits; takes memory the first time that a thread calls it.
  double evaluate(std::span<const double> point) const;

private:
  friend class Packer;
  PackedNetwork() = default;

  bool run(double* workspace, std::size_t rows, double* check) const;
  double evaluate(std::span<const double> point, double* workspace) const;

  std::size_t dimension_ = 0;
  std::size_t size_ = 0;    ///< of a workspace, in features; the input lies at its start
  std::size_t output_ = 0;  ///< where it lies there
  std::vector<std::unique_ptr<const PackedStep>> steps_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> spare_;
};

}  // namespace driftbound::implicit
