#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "driftbound/model/tensor.hpp"
#include "reference/ball_tensor.hpp"
#include "reference/kernels/pairs.hpp"

namespace driftbound {

/// Bits that a midpoint hi + lo has at least.
inline constexpr int pair_bits = 106;

/// A dense array of balls with midpoints hi + lo, in equal parts one after the other (one a sample, or all of it). Of
/// each part one number more is known: the 2-norm of the distances of all its exact values from their midpoints.
/// What has no value, or none that can be held here, is the whole line.
struct PairTensor {
  Shape shape;
  std::vector<double> hi, lo, radius;
  std::vector<double> norms;  ///< [parts]; infinite where an element is the whole line

  /// All zeros.
  PairTensor(Shape shape, std::size_t parts);
  /// Exact numbers.
  explicit PairTensor(const Tensor<double>& values);
  /// Rows (indices on axis 0) of a tensor, each a part.
  PairTensor(const Tensor<double>& values, std::span<const std::size_t> rows);
  PairTensor(const BallTensor& balls, std::size_t parts);

  std::size_t size() const { return hi.size(); }
  std::size_t parts() const { return norms.size(); }
  std::size_t part_size() const { return norms.empty() ? 0 : size() / norms.size(); }
  bool is_exact() const;
  ConstPairs view() const { return {hi.data(), lo.data(), radius.data()}; }
  Pairs view() { return {hi.data(), lo.data(), radius.data()}; }

  BallTensor balls(int bits) const;

  /// Takes a part's norm to be at most `norm`, finds what its radii make of it, and lowers each to the other.
  void settle(std::size_t part, double norm);
  /// The same of all parts, without any knowledge but the radii.
  void settle();
};

}  // namespace driftbound
